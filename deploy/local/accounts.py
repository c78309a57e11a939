"""The unprivileged account that Postgres runs under. Postgres refuses root, so as root we lend it an existing one."""

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_LENT_ACCOUNTS = ("postgres", "nobody")
_CHECK_TIMEOUT_S = 10


class NoAccountError(RuntimeError):
    """No account can run Postgres here; the message says why."""


@dataclass(frozen=True)
class Account:
    name: str
    uid: int
    gid: int

    @property
    def is_ours(self) -> bool:
        return self.uid == os.geteuid()

    def popen_options(self) -> dict[str, Any]:
        """What makes a child run as this account; nothing when we are it."""
        return {} if self.is_ours else {"user": self.uid, "group": self.gid, "extra_groups": []}

    def passes(self, test: str, path: Path) -> bool:
        """Whether `test -x PATH` (or -w, -r, -d) succeeds as this account: the kernel knows every rule, we do not."""
        command = ["/bin/sh", "-c", 'test "$1" "$2"', "sh", test, str(path)]
        done = subprocess.run(command, cwd="/", check=False, timeout=_CHECK_TIMEOUT_S, **self.popen_options())
        return done.returncode == 0

    def take(self, directory: Path) -> None:
        """Makes `directory` this account's own, closed to others. Raises NoAccountError where another's lies."""
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if directory.lstat().st_uid not in {self.uid, os.geteuid()} or directory.is_symlink():
            raise NoAccountError(f"{directory} belongs to somebody else: remove it")
        if not self.is_ours:
            os.chown(directory, self.uid, self.gid)
        directory.chmod(0o700)


def account_for(data: Path) -> Account:
    """The owner of existing data, else ourselves, else (as root) the first account that may be lent."""
    if os.geteuid() != 0:
        return _account(pwd.getpwuid(os.geteuid()))
    if data.exists() and data.stat().st_uid != 0:
        return _account(pwd.getpwuid(data.stat().st_uid))
    for name in _LENT_ACCOUNTS:
        try:
            return _account(pwd.getpwnam(name))
        except KeyError:
            continue
    accounts = " or ".join(_LENT_ACCOUNTS)
    raise NoAccountError(f"Postgres does not run as root and there is no account {accounts}: run as another user")


def _account(entry: pwd.struct_passwd) -> Account:
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)

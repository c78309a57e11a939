"""A throwaway Postgres and Valkey for one test run: their addresses are known at once, they start when first needed.

Nothing outlives the run: each process dies with pytest (Linux's parent-death signal), also after kill -9, and what a
killed run left on disk is deleted by the next.
"""

import atexit
import contextlib
import ctypes
import fcntl
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import redis

from deploy.local import postgres, valkey

_PREFIX = "tokenyard-test-"
_START_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 10
_POLL_S = 0.02
_SETTLED_AFTER_S = 60  # a younger directory may be about to be locked
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Services:
    """`postgres.url()`, `valkey.url` and `valkey.broker_url` hold before anything runs: settings are read early."""

    def __init__(self) -> None:
        self.directory = _own_directory()
        password = secrets.token_hex(16)
        self.postgres = postgres.locate(self.directory / "postgres", password=password, is_durable=False)
        self.valkey = valkey.locate(self.directory / "valkey", password=password, is_durable=False)

    def export(self) -> None:
        os.environ["TOKENYARD_DATABASE_URL"] = self.postgres.url()
        os.environ["TOKENYARD_VALKEY_URL"] = self.valkey.url
        os.environ["TOKENYARD_BROKER_URL"] = self.valkey.broker_url

    @contextmanager
    def running_postgres(self) -> Iterator[postgres.Postgres]:
        postgres.prepare(self.postgres)
        with _running(
            self.postgres.command(),
            stop_with=signal.SIGINT,
            log=self.directory / "postgres.log",
            cwd=self.postgres.data,
            env=self.postgres.environment,
            **self.postgres.account.popen_options(),
        ) as is_up:
            is_up(lambda: postgres.ensure_database(self.postgres), psycopg.OperationalError)
            yield self.postgres

    @contextmanager
    def running_valkey(self) -> Iterator[valkey.Valkey]:
        valkey.prepare(self.valkey)
        lock = valkey.lock(self.valkey)
        log = self.directory / "valkey.log"
        with _running(self.valkey.command(), stop_with=signal.SIGTERM, log=log, pass_fds=(lock,)) as is_up:
            os.close(lock)
            is_up(lambda: valkey.ping(self.valkey), redis.RedisError)
            yield self.valkey


def die_with_parent(number: int) -> Callable[[], None]:
    """For `preexec_fn`: the child gets this signal when the thread that started it is gone."""

    def ask_kernel() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, number)

    return ask_kernel


@contextmanager
def _running(command: list[str], *, stop_with: int, log: Path, **options: Any) -> Iterator[Callable[..., None]]:
    """Yields a function that waits until a probe no longer raises."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            preexec_fn=die_with_parent(stop_with),  # noqa: PLW1509 - started before any thread of ours
            **options,
        )
    try:
        yield lambda probe, error: _wait_until(probe, error, process, log)
    finally:
        process.send_signal(stop_with)
        process.wait(_STOP_TIMEOUT_S)


def _wait_until(probe: Callable[[], None], error: type[Exception], process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while True:
        try:
            return probe()
        except error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{process.args!r} did not start:\n{log.read_text()}") from None
            time.sleep(_POLL_S)


def _own_directory() -> Path:
    """New, reachable by the account Postgres runs under, locked while this process lives, deleted at its end."""
    _delete_abandoned()
    directory = Path(tempfile.mkdtemp(prefix=_PREFIX))
    directory.chmod(0o711)
    fcntl.flock(os.open(directory, os.O_RDONLY), fcntl.LOCK_EX)
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory


def _delete_abandoned() -> None:
    for directory in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):  # another run ends, or deletes it, at the same time
            _delete_if_abandoned(directory)


def _delete_if_abandoned(directory: Path) -> None:
    status = directory.stat()
    is_settled = time.time() - status.st_mtime > _SETTLED_AFTER_S
    if status.st_uid == os.geteuid() and is_settled and not _is_locked(directory):
        shutil.rmtree(directory, ignore_errors=True)


def _is_locked(directory: Path) -> bool:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False

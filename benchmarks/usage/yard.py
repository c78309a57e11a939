"""A Postgres of the benchmark's own, as durable as in production, a web process for it, and the CPU time they take."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import psycopg
import redis

from deploy.local import postgres, valkey

NOW = datetime(2026, 11, 29, tzinfo=UTC)
HOST = "127.0.0.1"
_TICKS = os.sysconf("SC_CLK_TCK")
_PASSWORD = "benchmark"  # noqa: S105 - on sockets of its own


class Yard(NamedTuple):
    directory: Path
    server: postgres.Postgres
    postmaster: int


@contextmanager
def running_yard(parent: str | None, days: int) -> Iterator[Yard]:
    """Migrated, with partitions for the days before NOW; deleted in the end."""
    directory = Path(tempfile.mkdtemp(prefix="tokenyard-bench-", dir=parent))
    directory.chmod(0o755)
    try:
        with _running_postgres(directory) as yard:
            os.environ["TOKENYARD_DATABASE_URL"] = yard.server.url()
            os.environ["TOKENYARD_WEB_DATABASE_URL"] = yard.server.url(user=postgres.WEB_USER, password=_PASSWORD)
            os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings.test"
            _set_up(days)
            yield yard
    finally:
        postgres.forget(directory / "postgres")
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def running_web(yard: Yard) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """As the local stack starts it, signed in as the role that row-level security binds; with its port."""
    port = _free_port()
    with _running_valkey(yard.directory / "valkey") as store:
        environment = os.environ | {
            "TOKENYARD_DATABASE_URL": os.environ["TOKENYARD_WEB_DATABASE_URL"],
            "TOKENYARD_VALKEY_URL": store.url,
            "TOKENYARD_BROKER_URL": store.broker_url,
            "TOKENYARD_VAR": str(yard.directory / "var"),
            "DJANGO_SETTINGS_MODULE": "controlplane.settings.dev",
        }
        command = [
            sys.executable,
            "-m",
            "uvicorn",
            "controlplane.asgi:application",
            "--host",
            HOST,
            "--port",
            str(port),
        ]
        command += ["--no-access-log", "--log-level", "warning", "--ws-per-message-deflate", "false"]
        with _running(subprocess.Popen(command, env=environment), signal.SIGTERM) as web:
            _wait_for(lambda: socket.create_connection((HOST, port), 1).close(), OSError)
            yield web, port


def _free_port() -> int:
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        return int(bound.getsockname()[1])


@contextmanager
def _running_valkey(home: Path) -> Iterator[valkey.Valkey]:
    store = valkey.locate(home, password=_PASSWORD)
    valkey.prepare(store)
    with _running(subprocess.Popen(store.command(), stdout=subprocess.DEVNULL), signal.SIGTERM):
        _wait_for(lambda: valkey.ping(store), redis.RedisError)
        yield store


@contextmanager
def _running_postgres(directory: Path) -> Iterator[Yard]:
    server = postgres.locate(directory / "postgres", password=_PASSWORD)
    postgres.prepare(server)
    process = subprocess.Popen(
        server.command(),
        cwd=server.data,
        env=server.environment,
        stderr=subprocess.DEVNULL,
        **server.account.popen_options(),
    )
    with _running(process, signal.SIGINT):
        _wait_for(lambda: postgres.ensure_database(server), psycopg.OperationalError)
        yield Yard(directory, server, process.pid)


@contextmanager
def _running(process: subprocess.Popen[bytes], stop_with: signal.Signals) -> Iterator[subprocess.Popen[bytes]]:
    try:
        yield process
    finally:
        process.send_signal(stop_with)
        process.wait(60)


def _wait_for(probe: Callable[[], None], error: type[Exception]) -> None:
    for _ in range(300):
        try:
            return probe()
        except error:
            time.sleep(0.1)
    sys.exit("a process did not come up")


def _set_up(days: int) -> None:
    import django  # noqa: PLC0415 - after the environment is set

    django.setup()
    from django.core.management import call_command  # noqa: PLC0415

    from apps.usage.services.partitions import make_partitions  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    for age in range(0, days + 8, 7):
        make_partitions(now=NOW - timedelta(days=age))


def cpu_s_of(pid: int, *, with_ended: bool = False) -> float:
    """`with_ended`: with its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / _TICKS


def resident_bytes() -> int:
    """Of this process, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

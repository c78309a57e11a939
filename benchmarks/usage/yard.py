"""A Postgres of the benchmark's own, as durable as in production, and the CPU time that it takes."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg

from deploy.local import postgres

NOW = datetime(2026, 11, 29, tzinfo=UTC)
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def running_yard(parent: str | None, days: int) -> Iterator[postgres.Postgres]:
    """Migrated, with partitions for the days before NOW; deleted in the end."""
    directory = Path(tempfile.mkdtemp(prefix="tokenyard-bench-", dir=parent))
    directory.chmod(0o755)
    try:
        with _running_postgres(directory) as server:
            os.environ["TOKENYARD_DATABASE_URL"] = server.url()
            os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings.test"
            _set_up(days)
            yield server
    finally:
        postgres.forget(directory / "postgres")
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def _running_postgres(directory: Path) -> Iterator[postgres.Postgres]:
    server = postgres.locate(directory / "postgres", password="benchmark")  # noqa: S106 - on a socket of its own
    postgres.prepare(server)
    process = subprocess.Popen(
        server.command(),
        cwd=server.data,
        env=server.environment,
        stderr=subprocess.DEVNULL,
        **server.account.popen_options(),
    )
    try:
        _wait_until_up(server)
        yield server
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)


def _wait_until_up(server: postgres.Postgres) -> None:
    for _ in range(200):
        try:
            postgres.ensure_database(server)
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    sys.exit("Postgres did not come up")


def _set_up(days: int) -> None:
    import django  # noqa: PLC0415 - after the environment is set

    django.setup()
    from django.core.management import call_command  # noqa: PLC0415

    from apps.usage.services.partitions import make_partitions  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    for age in range(0, days + 8, 7):
        make_partitions(now=NOW - timedelta(days=age))


def cpu_s_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def resident_bytes() -> int:
    """Of this process, now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

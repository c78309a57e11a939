"""Usage at scale: records ingested per second, and how long the pages of a month take.

python -m benchmarks.usage [--records 2000000] [--processes 2] [--days 30] [--directory DIR]

A Postgres of its own, as durable as in production, is made in DIR and deleted. Records are spread over the days, 40
tenants, 800 keys and users, 3 models of 2 versions and `--end-users` end users; each process ships those of a gateway.
"""

import argparse
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg

from deploy.local import postgres
from workers.contracts.ids import uuid7
from workers.contracts.usage import UsageRecord

BATCH = 1000
TENANTS, KEYS_PER_TENANT, MODELS, VERSIONS = 40, 20, 3, 2
ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu")
NOW = datetime(2026, 11, 29, tzinfo=UTC)


def main() -> None:
    options = _options()
    directory = Path(tempfile.mkdtemp(prefix="tokenyard-bench-", dir=options.directory))
    directory.chmod(0o755)
    try:
        with _running_postgres(directory) as server:
            os.environ["TOKENYARD_DATABASE_URL"] = server.url()
            os.environ["DJANGO_SETTINGS_MODULE"] = "controlplane.settings.test"
            _set_up(options.days)
            before_s = _cpu_of_postgres(server)
            _ingest(options)
            spent_s = _cpu_of_postgres(server) - before_s
            print(f"  Postgres: {spent_s / options.records * 1e6:.1f} ms CPU a thousand records", flush=True)
            _ask(options.days)
    finally:
        postgres.forget(directory / "postgres")
        shutil.rmtree(directory, ignore_errors=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--end-users", type=int, default=50_000)
    parser.add_argument("--directory", default=None)
    return parser.parse_args()


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
        process.wait(30)


def _wait_until_up(server: postgres.Postgres) -> None:
    for _ in range(200):
        try:
            postgres.ensure_database(server)
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    sys.exit("Postgres did not come up")


def _cpu_of_postgres(server: postgres.Postgres) -> float:
    """Seconds of its server process and of all backends that have ended."""
    pid = (server.data / "postmaster.pid").read_text().split()[0]
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def _set_up(days: int) -> None:
    import django  # noqa: PLC0415 - after the environment is set

    django.setup()
    from django.core.management import call_command  # noqa: PLC0415

    from apps.usage.services.partitions import make_partitions  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    for age in range(0, days + 8, 7):
        make_partitions(now=NOW - timedelta(days=age))


# --- ingest -----------------------------------------------------------------------------------------------------------


def _ingest(options: argparse.Namespace) -> None:
    from django.db import connections  # noqa: PLC0415

    connections.close_all()
    share = options.records // options.processes
    began = time.perf_counter()
    workers = [
        multiprocessing.Process(target=_send, args=(number, share, options.days, options.end_users))
        for number in range(options.processes)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    elapsed_s = time.perf_counter() - began
    print(f"ingest: {share * options.processes:,} records in {elapsed_s:.1f} s by {options.processes} processes")


def _send(number: int, count: int, days: int, end_users: int) -> None:
    """What a web process does with the batches of one gateway. Making the records is not counted."""
    from django.db import connections  # noqa: PLC0415

    from apps.usage.services.ingest import ingest_records  # noqa: PLC0415

    connections.close_all()
    source, node, spent_s = _Source(number, count, days, end_users), UUID(uuid7(1.0, number)), 0.0
    for batch in source.batches():
        began = time.process_time()
        counts = ingest_records(records=batch, node_id=node, now=NOW)
        spent_s += time.process_time() - began
        if counts.stored != len(batch):
            sys.exit("a record was not stored")
    print(f"  gateway {number}: {spent_s / count * 1e6:.1f} ms CPU of the web process a thousand records", flush=True)


class _Source:
    """A gateway's records in the order of their arrival."""

    def __init__(self, number: int, count: int, days: int, end_users: int) -> None:
        self._chance = random.Random(number)
        self._number, self._count, self._end_users = number, count, end_users
        self._start_s = (NOW - timedelta(days=days)).timestamp()
        self._step_s = days * 86_400 / count

    def batches(self) -> Iterator[list[UsageRecord]]:
        for first in range(0, self._count, BATCH):
            yield [self._record(at) for at in range(first, min(first + BATCH, self._count))]

    def _record(self, at: int) -> UsageRecord:
        chance = self._chance
        tenant = min(int(chance.expovariate(0.12)), TENANTS - 1)
        key = tenant * KEYS_PER_TENANT + chance.randrange(KEYS_PER_TENANT)
        model = chance.randrange(MODELS)
        arrived_at = self._start_s + at * self._step_s
        return UsageRecord(
            record_id=uuid7(arrived_at, chance.getrandbits(74)),
            gateway_id=f"gateway-{self._number}",
            boot_id="benchmark",
            sequence=at + 1,
            request_id=f"{chance.getrandbits(128):032x}",
            arrived_at=arrived_at,
            tenant_id=uuid7(1.0, tenant),
            key_id=uuid7(2.0, key),
            user_id=uuid7(3.0, key),
            end_user=f"user-{chance.randrange(self._end_users)}" if chance.random() < 0.5 else "",
            workflow_id=f"w-{at // 20}" if chance.random() < 0.3 else "",
            path="/v1/chat/completions",
            public_model=f"model-{model}",
            version_id=uuid7(4.0, model * VERSIONS + (chance.random() < 0.1)),
            deployment_id="",
            endpoint_id="",
            node_id="",
            service_class="standard",
            is_stream=True,
            status=200,
            outcome="completed" if chance.random() < 0.97 else "failed",
            usage_source="engine",
            input_tokens=chance.randrange(50, 8000),
            cached_input_tokens=0,
            output_tokens=chance.randrange(1, 1000),
            queue_ms=1.0,
            ttft_ms=200.0,
            total_ms=3000.0,
            engine_ms=2900.0,
            cost_pico_usd=chance.randrange(10**9),
        )


# --- pages ------------------------------------------------------------------------------------------------------------


def _ask(days: int) -> None:
    from django.db import connection  # noqa: PLC0415

    from apps.common.actors import SYSTEM  # noqa: PLC0415
    from apps.usage.selectors.records import page_of_records  # noqa: PLC0415
    from apps.usage.selectors.reports import report_usage, scope_for, sum_usage  # noqa: PLC0415

    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute("ANALYZE")
        for table in ("usage_slot", "usage_by_model", "usage_by_end_user", "usage_by_workflow"):
            cursor.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 - names from above
            print(f"{table}: {cursor.fetchone()[0]:,} rows")
    scope = scope_for(actor=SYSTEM, start=NOW - timedelta(days=days), end=NOW)
    _time("totals", lambda: sum_usage(scope=scope))
    for zone in ZONES:
        _time(
            f"by day and model, {zone}",
            lambda z=zone: report_usage(scope=scope, group_by=["day", "model"], zone=ZoneInfo(z)),
        )
    for group in ("tenant", "version", "user", "key", "outcome"):
        _time(f"by {group}", lambda g=group: report_usage(scope=scope, group_by=[g], zone=ZoneInfo("UTC")))
    _time("first page of records", lambda: page_of_records(scope=scope))


def _time(name: str, ask: Callable[[], object]) -> None:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        ask()
        times.append(time.perf_counter() - began)
    print(f"{name}: {min(times) * 1000:,.0f} ms best, {max(times) * 1000:,.0f} ms worst of 3")


if __name__ == "__main__":
    main()

"""What pages, reports and files of a month ask, with the time each takes and, of files, the memory."""

import os
import sys
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING
from uuid import UUID
from zoneinfo import ZoneInfo

import psycopg

from benchmarks.usage.yard import NOW, resident_bytes

if TYPE_CHECKING:
    from apps.usage.selectors.sums import UsageScope

ZONES = ("UTC", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu")
FILE_ROWS = 300_000
_TABLES = """
SELECT relname, reltuples::bigint, pg_total_relation_size(oid) / 1048576 FROM pg_class
WHERE relname LIKE 'usage\\_%' AND relkind = 'r' AND relname NOT LIKE 'usage\\_record\\_%'
"""


def tenant_id(number: int) -> UUID:
    return UUID(f"00000000-0000-7000-8001-{number:012}")


TENANT = tenant_id(3)


def ask_about(days: int) -> None:
    everybody, tenant = _scopes(days)
    analyse()
    _ask_page(everybody, tenant)
    _ask_reports(everybody, tenant)
    _ask_records(everybody, tenant)
    _ask_files(everybody, tenant)


def ask_about_page(days: int, *, is_analysed: bool = True) -> None:
    if is_analysed:
        analyse()
    _ask_page(*_scopes(days))


def _scopes(days: int) -> "tuple[UsageScope, UsageScope]":
    from apps.usage.selectors.sums import UsageScope  # noqa: PLC0415 - after Django is set up

    start = NOW - timedelta(days=days)
    everybody = UsageScope(tenant_ids=None, start=start, end=NOW)
    return everybody, UsageScope(tenant_ids=(TENANT,), start=start, end=NOW)


def _ask_page(scope: "UsageScope", tenant: "UsageScope") -> None:
    """All that the console's page of a month reads."""
    for name, of in (("all tenants", scope), ("one tenant", tenant)):
        for zone in ZONES:
            took("a month's page", f"{name}, {zone}", partial(_page, of, ZoneInfo(zone)))


def _page(scope: "UsageScope", zone: ZoneInfo) -> None:
    from apps.usage.selectors.reports import report_usage, sum_usage  # noqa: PLC0415

    report_usage(scope=scope, group_by=["model"], zone=zone)
    report_usage(scope=scope, group_by=["day", "model"], zone=zone)
    sum_usage(scope=scope)


def _ask_reports(scope: "UsageScope", tenant: "UsageScope") -> None:
    from apps.usage.selectors.outcomes import report_outcomes  # noqa: PLC0415
    from apps.usage.selectors.reports import rank_usage, report_usage  # noqa: PLC0415

    for group in ("tenant", "model", "version", "user", "key"):
        took("report", f"by {group}", partial(report_usage, scope=scope, group_by=[group], zone=ZoneInfo("UTC")))
    for group in ("end_user", "workflow"):
        took("report", f"dearest by {group}", partial(rank_usage, scope=scope, group=group, by="cost_usd", size=200))
        took(
            "report",
            f"dearest by {group}, one tenant",
            partial(rank_usage, scope=tenant, group=group, by="cost_usd", size=200),
        )
    for name, of in (("all tenants", scope), ("one tenant", tenant)):
        took("report", f"cost per success, {name}", partial(report_outcomes, scope=of, group_by="version"))
    berlin = partial(report_usage, scope=tenant, group_by=["day", "user"], zone=ZoneInfo("Europe/Berlin"))
    took("report", "by day and user of one tenant, Berlin", berlin)


def _ask_records(scope: "UsageScope", tenant: "UsageScope") -> None:
    from apps.usage.models import UsageRecord  # noqa: PLC0415
    from apps.usage.selectors.health import get_record_health  # noqa: PLC0415
    from apps.usage.selectors.records import page_of_records  # noqa: PLC0415

    for name, of in (("all tenants", scope), ("one tenant", tenant)):
        first, _ = page_of_records(scope=of)
        took("records", f"newest, {name}", partial(page_of_records, scope=of))
        took("records", f"next page, {name}", partial(page_of_records, scope=of, before=first[-1].record_id))
        wanted = first[0].request_id
        took("records", f"search a request, {name}", partial(page_of_records, scope=of, search=wanted))
        took("records", f"search nothing, {name}", partial(page_of_records, scope=of, search="no-such-thing"))
        took("records", f"failed ones, {name}", partial(page_of_records, scope=of, outcome="failed"))
    newest = UsageRecord.objects.order_by("-arrived_at").first()
    if newest is not None:
        took("records", "one record", lambda: UsageRecord.objects.filter(record_id=newest.record_id).first())
    took("records", "health: gaps, unpriced, quarantine", lambda: get_record_health(since=NOW - timedelta(days=30)))


def _ask_files(scope: "UsageScope", tenant: "UsageScope") -> None:
    from apps.usage.api.files import parquet_parts  # noqa: PLC0415
    from apps.usage.selectors.focus import focus_table  # noqa: PLC0415
    from apps.usage.selectors.tables import records_table  # noqa: PLC0415

    _file("FOCUS, all tenants", lambda: focus_table(scope=scope).rows(), sys.maxsize)
    _file("FOCUS, one tenant", lambda: focus_table(scope=tenant).rows(), sys.maxsize)
    _file("records as CSV", lambda: records_table(scope=tenant).rows(), FILE_ROWS)
    _file("records as Parquet, 10,000 a row", lambda: parquet_parts(records_table(scope=tenant)), sys.maxsize)


def _file(name: str, rows: Callable[[], Iterable[object]], most: int) -> None:
    before, began = resident_bytes(), time.perf_counter()
    peak, count = before, 0
    for count, _ in enumerate(islice(rows(), most), 1):
        if count % 100 == 0:
            peak = max(peak, resident_bytes())
    spent_s = time.perf_counter() - began
    print(f"file | {name} | {count:,} rows in {spent_s:.1f} s, {(peak - before) / 2**20:.0f} MB more", flush=True)


def took(kind: str, name: str, ask: Callable[[], object]) -> None:
    times = []
    for _ in range(3):
        began = time.perf_counter()
        ask()
        times.append(time.perf_counter() - began)
    print(f"{kind} | {name} | {min(times) * 1000:,.0f} ms best, {max(times) * 1000:,.0f} ms worst of 3", flush=True)


def analyse() -> None:
    """As autovacuum has done long before, where records come over a month and not in minutes."""
    with psycopg.connect(os.environ["TOKENYARD_DATABASE_URL"], autocommit=True) as own:
        own.execute("VACUUM ANALYZE")
        for table, rows, size_mb in own.execute(_TABLES).fetchall():
            print(f"table | {table} | {rows:,} rows, {size_mb:,} MB", flush=True)

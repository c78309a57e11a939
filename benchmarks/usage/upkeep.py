"""What finance and the control loops do with millions of records: re-rating, limits counted anew, days dropped."""

import time
from collections.abc import Callable
from datetime import timedelta

from benchmarks.usage.questions import TENANT, ask_about_page, tenant_id
from benchmarks.usage.yard import NOW

TENANTS = 40
_SUMMED = "SELECT sum(request_count), sum(input_tokens), sum(output_tokens), sum(cost_usd) FROM "
_RECORDS = "SELECT count(*), sum(input_tokens), sum(output_tokens), sum(cost_usd) FROM usage_record"


def keep_up(rerate_days: int, days: int) -> None:
    _make_budgets()
    _watch_budgets("before the re-rating")
    _rerate(rerate_days)
    _watch_budgets("after the re-rating")
    _watch_budgets("after the re-rating, once more")
    _check_sums()
    ask_about_page(days, is_analysed=False)
    _count_limits()
    _drop_a_day()


def _rerate(days: int) -> None:
    """The month's first: previewed, confirmed, applied. All their records change their price."""
    from apps.common.actors import SYSTEM  # noqa: PLC0415 - after Django is set up
    from apps.usage.models import Rerating, UsageRecord  # noqa: PLC0415
    from apps.usage.services.rerating import apply_rerating, run_reratings, start_rerating  # noqa: PLC0415

    start = NOW - timedelta(days=30)
    _make_prices()
    row = start_rerating(actor=SYSTEM, start=start, end=start + timedelta(days=days), reason="benchmark", now=NOW)
    count = UsageRecord.objects.filter(arrived_at__gte=row.start, arrived_at__lt=row.end).count()
    _took(f"re-rating of {count:,} records, preview", lambda: run_reratings(now=NOW))
    apply_rerating(actor=SYSTEM, rerating=Rerating.objects.get(pk=row.pk), now=NOW)
    _took(f"re-rating of {count:,} records, applied", lambda: run_reratings(now=NOW))


def _make_budgets() -> None:
    """One of all, one of each tenant; the thresholds are such that the new prices reach some and fall below others."""
    from apps.tenants.models import Tenant  # noqa: PLC0415
    from apps.usage.models import Budget  # noqa: PLC0415

    facts = {"amount_usd": 500, "thresholds_percent": [1, 10, 50, 100], "mail_to": ["f@example.org"], "created_at": NOW}
    Budget.objects.get_or_create(name="everybody", tenant=None, defaults=facts)
    for number in range(TENANTS):
        named = f"tenant-{number}"
        Tenant.objects.get_or_create(pk=tenant_id(number), defaults={"name": named, "created_at": NOW})
        Budget.objects.get_or_create(name=named, tenant_id=tenant_id(number), defaults=facts)


def _watch_budgets(when: str) -> None:
    from apps.usage.models import BudgetAlert  # noqa: PLC0415
    from apps.usage.services.budgets import watch_budgets  # noqa: PLC0415

    _took(f"{TENANTS + 1} budgets watched {when}", lambda: watch_budgets(now=NOW))
    standing, withdrawn = (BudgetAlert.objects.filter(withdrawn_at__isnull=bare).count() for bare in (True, False))
    print(f"upkeep | alerts that stand {standing}, withdrawn {withdrawn}", flush=True)


def _check_sums() -> None:
    """The sums are those of the records after all."""
    from django.db import connection  # noqa: PLC0415

    from apps.usage.services.rollup_sql import ROLLUPS  # noqa: PLC0415

    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        expected = cursor.execute(_RECORDS).fetchone()
        for rollup in ROLLUPS:
            found = cursor.execute(_SUMMED + rollup._meta.db_table).fetchone()  # noqa: SLF001
            same = "as the records" if found == expected else f"{found} where the records have {expected}"
            print(f"upkeep | {rollup._meta.db_table}: {same}", flush=True)  # noqa: SLF001


def _make_prices() -> None:
    from apps.registry.models import Model, ModelVersion  # noqa: PLC0415
    from apps.usage.models import PriceEntry, UsageTotal  # noqa: PLC0415

    model, _ = Model.objects.get_or_create(name="benchmark", defaults={"task": "generate", "created_at": NOW})
    since, facts = NOW - timedelta(days=60), {"model": model, "engine": "vllm", "created_at": NOW}
    for number, version_id in enumerate(
        UsageTotal.objects.exclude(version_id=None)
        .order_by("version_id")
        .values_list("version_id", flat=True)
        .distinct(),
        1,
    ):
        version, _ = ModelVersion.objects.get_or_create(pk=str(version_id), defaults=facts | {"label": f"v{number}"})
        amounts = {"input_pico_usd": 150_000 * number, "cached_input_pico_usd": 75_000, "output_pico_usd": 600_000}
        PriceEntry.objects.get_or_create(version=version, effective_from=since, defaults=amounts | {"created_at": NOW})


def _count_limits() -> None:
    from apps.limits.models import Limit  # noqa: PLC0415
    from apps.limits.selectors.truth import sum_by_subject  # noqa: PLC0415
    from workers.contracts.limits import Period  # noqa: PLC0415

    month = Period("benchmark", (NOW - timedelta(days=30)).timestamp(), NOW.timestamp())
    for scope, kind in (("tenant", "tokens_per_month"), ("key", "cost_per_month"), ("end_user", "cost_per_month")):
        limit = Limit(scope=scope, kind=kind, subject="" if scope == "tenant" else "*", amount=1)

        def count(limit: Limit = limit) -> None:
            sum_by_subject(limit=limit, holder=TENANT, period=month, now=NOW)

        _took(f"a month of one tenant counted for a limit by {scope}", count)


def _drop_a_day() -> None:
    from apps.usage.services.partitions import drop_old_partitions  # noqa: PLC0415

    _took("two days of records dropped", lambda: drop_old_partitions(now=NOW, keep_days=29))


def _took(name: str, act: Callable[[], object]) -> None:
    began = time.perf_counter()
    act()
    print(f"upkeep | {name} | {time.perf_counter() - began:,.1f} s", flush=True)

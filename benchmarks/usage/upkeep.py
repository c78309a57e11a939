"""What finance and the control loops do with millions of records: re-rating, limits counted anew, days dropped."""

import time
from collections.abc import Callable
from datetime import timedelta

from benchmarks.usage.questions import TENANT
from benchmarks.usage.yard import NOW


def keep_up(rerate_days: int) -> None:
    _rerate(rerate_days)
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

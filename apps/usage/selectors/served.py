"""How well a tenant was served of late, from its newest records: a bounded number, so that a page stays quick."""

from dataclasses import dataclass

from django.db.models import Aggregate, Count, FloatField, Q, QuerySet

from apps.usage.models import UsageRecord
from apps.usage.selectors.records import list_records
from apps.usage.selectors.sums import UsageScope

NEWEST = 5_000


class _P95(Aggregate):
    function = "percentile_cont"
    template = "%(function)s(0.95) WITHIN GROUP (ORDER BY %(expressions)s)"
    output_field = FloatField()


@dataclass(frozen=True, kw_only=True)
class Served:
    """Of the newest requests of the scope, `request_count` of them. `ttft_ms_p95` None: none had a first token."""

    request_count: int
    failed_count: int
    refused_count: int
    ttft_ms_p95: float | None


_FIGURES = {
    "request_count": Count("record_id"),
    "failed_count": Count("record_id", filter=Q(outcome="failed")),
    "refused_count": Count("record_id", filter=Q(outcome="refused")),
    "ttft_ms_p95": _P95("ttft_ms", filter=Q(ttft_ms__isnull=False)),
}
NOTHING = Served(request_count=0, failed_count=0, refused_count=0, ttft_ms_p95=None)


def served_of(*, scope: UsageScope) -> Served:
    return Served(**_newest(scope).aggregate(**_FIGURES))


def served_by_model(*, scope: UsageScope) -> dict[str, Served]:
    """By public model; one that nobody asked for is left out."""
    rows = _newest(scope).values_list("public_model").annotate(**_FIGURES)
    return {name: Served(**dict(zip(_FIGURES, figures, strict=True))) for name, *figures in rows}


def _newest(scope: UsageScope) -> QuerySet[UsageRecord]:
    newest = list_records(scope=scope).values("record_id")[:NEWEST]
    return UsageRecord.objects.filter(
        record_id__in=newest, arrived_at__gte=scope.start, arrived_at__lt=scope.end
    ).order_by()

"""Whether every record has come: gaps in the sources' numbers, quarantined, unpriced and mispriced records."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db.models import QuerySet

from apps.common.errors import NotFoundError
from apps.usage.models import QuarantinedRecord, UsageRecord, UsageSource
from apps.usage.policies.sequences import Ranges, count_of, gaps_in

MAX_SOURCES = 500


@dataclass(frozen=True)
class SourceHealth:
    """`gaps` are [first, last + 1) of the numbers that have not come though a higher one has."""

    source: UsageSource
    gaps: Ranges
    received_count: int
    missing_count: int


@dataclass(frozen=True)
class RecordHealth:
    sources: list[SourceHealth]
    quarantined_count: int
    unpriced_count: int
    mispriced_count: int

    @property
    def missing_count(self) -> int:
        return sum(source.missing_count for source in self.sources)


def get_record_health(*, since: datetime) -> RecordHealth:
    """Of the sources that were heard of since then. Late records fill their gaps."""
    records = UsageRecord.objects.filter(arrived_at__gte=since)
    return RecordHealth(
        sources=list_sources(since=since),
        quarantined_count=list_quarantined().filter(released_at=None).count(),
        unpriced_count=records.filter(is_unpriced=True).count(),
        mispriced_count=records.filter(is_cost_mismatch=True).count(),
    )


def list_sources(*, since: datetime) -> list[SourceHealth]:
    """Those with gaps first, then the newest."""
    rows = UsageSource.objects.filter(last_received_at__gte=since).order_by("-last_received_at")[:MAX_SOURCES]
    return sorted(map(_health_of, rows), key=lambda health: not health.gaps)


def _health_of(source: UsageSource) -> SourceHealth:
    ranges = [(part.lower, part.upper) for part in source.received]
    gaps = gaps_in(ranges)
    return SourceHealth(source, gaps, count_of(ranges), count_of(gaps))


def list_quarantined() -> QuerySet[QuarantinedRecord]:
    """Newest first."""
    return QuarantinedRecord.objects.all()


def get_quarantined(quarantined_id: UUID) -> QuarantinedRecord:
    row = list_quarantined().filter(pk=quarantined_id).first()
    if row is None:
        raise NotFoundError("no such quarantined record")
    return row


def health_since(now: datetime) -> datetime:
    return now - timedelta(days=30)

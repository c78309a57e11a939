"""What usage records say was used of a limit in a period, by subject and gateway process."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import CharField, F, QuerySet, Sum, Value
from django.db.models.functions import Cast, Coalesce, NullIf
from django.db.models.lookups import Exact

from apps.limits.models import Limit
from apps.limits.policies import NANO_PER_USD
from apps.tenants.models import Tenant
from apps.tenants.selectors import list_key_origins
from apps.usage.models import UsageRecord
from apps.usage.policies.checking import EARLY_DAYS
from apps.usage.policies.slots import utc_days
from apps.usage.selectors.records import oldest_arrival
from workers.contracts.limits import EACH, MONEY_KINDS, Period, subject_name

_SUMS = {False: Sum(F("input_tokens") + F("output_tokens")), True: Sum("cost_usd") * NANO_PER_USD}  # by: is it money
_SUBJECT_COLUMNS = {"member": "user_id", "key": "key_id"}


def sum_by_subject(*, limit: Limit, holder: UUID, period: Period, now: datetime) -> dict[str, dict[str, int]]:
    """Subject → process → used. `holder` is the tenant whose accounts they are; those below it use them, too.

    Day after day, so that no statement runs longer than a day of records takes, however long the period is.
    """
    tenants = _tenants(limit, holder)
    origins = list_key_origins(holder).get(holder, {}) if limit.scope == "key" else {}
    used: dict[str, dict[str, Decimal]] = defaultdict(lambda: defaultdict(Decimal))
    for start, end in _days(limit, period, now):
        records = _records(limit, tenants, origins).filter(arrived_at__gte=start, arrived_at__lt=end)
        for row in records.values("subject", "boot_id").annotate(used=_SUMS[limit.kind in MONEY_KINDS]):
            subject = row["subject"] or ""
            used[origins.get(subject, subject)][row["boot_id"]] += row["used"]
    return {
        subject_name(str(holder), subject): {boot: int(amount) for boot, amount in by_boot.items() if int(amount)}
        for subject, by_boot in used.items()
    }


def _days(limit: Limit, period: Period, now: datetime) -> Iterator[tuple[datetime, datetime]]:
    """Of the part of the period from which records may have come."""
    latest = now + timedelta(days=EARLY_DAYS)
    end = latest if period.end == float("inf") else min(datetime.fromtimestamp(period.end, UTC), latest)
    start = datetime.fromtimestamp(period.start, UTC)
    oldest = oldest_arrival()
    start = max(start, oldest) if oldest else end
    if limit.reset_at:
        start = max(start, limit.reset_at)
    return utc_days(start, end)


def _records(limit: Limit, tenants: Sequence[UUID], origins: Mapping[str, str]) -> QuerySet[Any]:
    records: QuerySet[Any] = UsageRecord.objects.filter(tenant_id__in=tenants)
    if limit.public_model:
        records = records.filter(public_model=limit.public_model)
    records = records.annotate(subject=_subject(limit.scope)).order_by()
    if limit.subject in {"", EACH}:
        return records
    if limit.scope == "key":
        origin = origins.get(limit.subject, limit.subject)
        return records.filter(key_id__in=[origin, *(key for key, first in origins.items() if first == origin)])
    return records.filter(Exact(F("subject"), Value(limit.subject)))


def _subject(scope: str) -> Cast | Coalesce | Value:
    if scope == "tenant":
        return Value("", output_field=CharField())
    owner = Cast(_SUBJECT_COLUMNS.get(scope, "user_id"), CharField())
    return Coalesce(NullIf(F("end_user"), Value("")), owner) if scope == "end_user" else owner


def _tenants(limit: Limit, holder: UUID) -> Sequence[UUID]:
    if limit.tenant_id is None or limit.scope != "tenant":
        return [holder]
    return list(Tenant.objects.under(holder).values_list("pk", flat=True))

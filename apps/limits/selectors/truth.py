"""What usage records say was used of a limit in a period, by subject and gateway process."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db.models import CharField, F, QuerySet, Sum, Value
from django.db.models.functions import Cast, Coalesce, NullIf
from django.db.models.lookups import Exact

from apps.limits.models import Limit
from apps.limits.policies import NANO_PER_USD
from apps.tenants.models import Tenant
from apps.usage.models import UsageRecord
from workers.contracts.limits import EACH, MONEY_KINDS, Period, subject_name

_EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
_SUBJECT_COLUMNS = {"member": "user_id", "key": "key_id"}


def sum_by_subject(*, limit: Limit, holder: UUID, period: Period) -> dict[str, dict[str, int]]:
    """Subject → process → used. `holder` is the tenant whose accounts they are; those below it use them, too."""
    records = _records(limit, holder, period)
    rows = records.values("subject", "boot_id").annotate(
        tokens=Sum(F("input_tokens") + F("output_tokens")), cost=Sum("cost_usd")
    )
    used: dict[str, dict[str, int]] = defaultdict(dict)
    for row in rows:
        amount = int(row["cost"] * NANO_PER_USD) if limit.kind in MONEY_KINDS else int(row["tokens"])
        if amount:
            used[subject_name(str(holder), row["subject"] or "")][row["boot_id"]] = amount
    return dict(used)


def _records(limit: Limit, holder: UUID, period: Period) -> QuerySet[Any]:
    records: QuerySet[Any] = UsageRecord.objects.filter(
        tenant_id__in=_tenants(limit, holder), arrived_at__gte=_start(limit, period)
    )
    if period.end != float("inf"):
        records = records.filter(arrived_at__lt=datetime.fromtimestamp(period.end, UTC))
    if limit.public_model:
        records = records.filter(public_model=limit.public_model)
    records = records.annotate(subject=_subject(limit.scope)).order_by()
    return records if limit.subject in {"", EACH} else records.filter(Exact(F("subject"), Value(limit.subject)))


def _subject(scope: str) -> Cast | Coalesce | Value:
    if scope == "tenant":
        return Value("", output_field=CharField())
    owner = Cast(_SUBJECT_COLUMNS.get(scope, "user_id"), CharField())
    return Coalesce(NullIf(F("end_user"), Value("")), owner) if scope == "end_user" else owner


def _start(limit: Limit, period: Period) -> datetime:
    start = max(datetime.fromtimestamp(period.start, UTC), _EARLIEST)
    return max(start, limit.reset_at) if limit.reset_at else start


def _tenants(limit: Limit, holder: UUID) -> Sequence[UUID]:
    if limit.tenant_id is None or limit.scope != "tenant":
        return [holder]
    return list(Tenant.objects.under(holder).values_list("pk", flat=True))

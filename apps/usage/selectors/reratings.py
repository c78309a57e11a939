from datetime import datetime
from uuid import UUID

from django.db.models import QuerySet

from apps.common.errors import NotFoundError
from apps.usage.models import Rerating, ReratingState


def list_reratings() -> QuerySet[Rerating]:
    return Rerating.objects.all()


def get_rerating(rerating_id: UUID) -> Rerating:
    row = Rerating.objects.filter(pk=rerating_id).first()
    if row is None:
        raise NotFoundError("no such re-rating")
    return row


def list_under_way(start: datetime, end: datetime) -> list[int]:
    """Numbers of those being applied to records of the stretch, whose sums are by old and by new prices so long."""
    return _numbers(ReratingState.APPLYING, start, end)


def list_applied(start: datetime, end: datetime) -> list[int]:
    return _numbers(ReratingState.APPLIED, start, end)


def _numbers(state: ReratingState, start: datetime, end: datetime) -> list[int]:
    rows = Rerating.objects.filter(state=state, start__lt=end, end__gt=start)
    return sorted(rows.values_list("number", flat=True))


def list_since(moment: datetime) -> list[tuple[datetime, datetime]]:
    """The stretches of time that were priced anew since then."""
    return list(Rerating.objects.filter(applied_at__gte=moment).values_list("start", "end"))


def count_applied_reratings() -> int:
    return Rerating.objects.filter(state=ReratingState.APPLIED).count()

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


def count_applied_reratings() -> int:
    return Rerating.objects.filter(state=ReratingState.APPLIED).count()

"""What is kept for a while only: changes, and answers to requests with an Idempotency-Key."""

from datetime import datetime, timedelta

from django.db import transaction

from apps.rest.models import Change, ForgottenChanges, KeptAnswer

CHANGES_KEPT_FOR = timedelta(hours=1)
MOST_CHANGES = 1_000_000


@transaction.atomic
def forget_old_changes(*, now: datetime) -> None:
    """How far it went stands in ForgottenChanges, so that nobody who watches takes a gap for quiet."""
    last = Change.objects.filter(at__lt=now - CHANGES_KEPT_FOR).last() or _beyond(MOST_CHANGES)
    if last is None:
        return
    ForgottenChanges.objects.update_or_create(pk=1, defaults={"transaction": last.transaction, "change_id": last.pk})
    Change.objects.filter(transaction__lt=last.transaction).delete()
    Change.objects.filter(transaction=last.transaction, pk__lte=last.pk).delete()


def forget_old_answers(*, now: datetime) -> None:
    KeptAnswer.objects.filter(expires_at__lte=now).delete()


def _beyond(count: int) -> Change | None:
    return Change.objects.reverse()[count:].first()

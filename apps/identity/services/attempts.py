"""Counting attempts before they are made, so that many at once are as slow as one after the other."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from django.db import transaction

from apps.common.errors import DomainError
from apps.identity.models import AttemptBucket
from apps.identity.policies import MEMORY_S, Bucket, wait_s


class TooManyAttemptsError(DomainError):
    code = "too_many_attempts"
    status = 429

    def __init__(self, retry_after_s: int, since: datetime) -> None:
        """`since` then it has been so."""
        super().__init__(f"too many attempts; try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s
        self.since = since


@transaction.atomic
def take_attempt(*, buckets: Sequence[Bucket], now: datetime) -> None:
    """Raises while one of the buckets is blocked; then nothing is counted."""
    by_name = {bucket.name: bucket for bucket in sorted(buckets, key=lambda bucket: bucket.name)}
    AttemptBucket.objects.bulk_create(
        [AttemptBucket(name=name, count=0, last_at=now) for name in by_name], ignore_conflicts=True
    )
    rows = list(AttemptBucket.objects.select_for_update().filter(name__in=by_name).order_by("name"))
    blocked = {row.blocked_until: row.last_at for row in rows if row.blocked_until and row.blocked_until > now}
    if blocked:
        until = max(blocked)
        raise TooManyAttemptsError(int((until - now).total_seconds()) + 1, blocked[until])
    for row in rows:
        _count(row, by_name[row.name], now)


@transaction.atomic
def give_back_attempt(*, buckets: Sequence[Bucket]) -> None:
    """It succeeded. The first bucket is the person's own and starts anew; the others get this one attempt back."""
    own, *shared = [bucket.name for bucket in buckets]
    AttemptBucket.objects.filter(name=own).delete()
    for row in AttemptBucket.objects.select_for_update().filter(name__in=shared).order_by("name"):
        row.count, row.blocked_until = max(row.count - 1, 0), None
        row.save(update_fields=["count", "blocked_until"])


def forget_old_attempts(*, now: datetime) -> int:
    deleted, _ = AttemptBucket.objects.filter(last_at__lt=now - timedelta(seconds=MEMORY_S)).delete()
    return deleted


def _count(row: AttemptBucket, bucket: Bucket, now: datetime) -> None:
    is_old = (now - row.last_at).total_seconds() > MEMORY_S
    row.count = 1 if is_old else row.count + 1
    row.last_at = now
    pause_s = wait_s(row.count, bucket.free)
    row.blocked_until = now + timedelta(seconds=pause_s) if pause_s else None
    row.save(update_fields=["count", "last_at", "blocked_until"])

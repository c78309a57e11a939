"""Leadership of the control loops: one at a time, by a Postgres advisory lock held for a transaction.

A leader that stops in the middle, its connection alive, would lead for ever: Postgres ends it after MOST_IDLE, and
with it all that it had begun.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

from apps.common.models import LeaderLease

MOST_IDLE = "30s"


@contextmanager
def lead(loop: str, *, holder: str) -> Iterator[int | None]:
    """Yields the fencing token, or None when another process leads this loop at the moment."""
    with transaction.atomic():
        yield _take_fence(loop, holder) if _try_lock(loop) else None


def _try_lock(loop: str) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [zlib.crc32(f"tokenyard.{loop}".encode())])
        (is_mine,) = cursor.fetchone()
        if is_mine:
            cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [MOST_IDLE])
    return bool(is_mine)


def _take_fence(loop: str, holder: str) -> int:
    lease, _ = LeaderLease.objects.get_or_create(name=loop, defaults={"holder": holder, "fence": 1})
    if lease.holder != holder:
        lease.holder, lease.fence = holder, lease.fence + 1
        lease.save(update_fields=["holder", "fence"])
    return lease.fence

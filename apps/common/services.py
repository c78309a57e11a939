"""Leadership of the control loops: one at a time, by a Postgres advisory lock held for a transaction.

A leader that stops in the middle, its connection alive, would lead for ever: Postgres ends it after MOST_IDLE, and
with it all that it had begun. One that stopped while an answer was on its way to it is not idle to Postgres, which
waits for it to read on: whoever would lead in its place ends it.
"""

import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction

from apps.common.models import LeaderLease

MOST_IDLE = "30s"
_LOOK_AGAIN_S = 0.05
_END_DEAF = """
    SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE locktype = 'advisory' AND classid = 0 AND objid = %s AND objsubid = 1 AND granted
      AND datname = current_database() AND wait_event = 'ClientWrite' AND clock_timestamp() - query_start > %s::interval
"""


@contextmanager
def lead(loop: str, *, holder: str, patience_s: float = 0.0) -> Iterator[int | None]:
    """Yields the fencing token, or None when another process leads this loop, and still does after `patience_s`."""
    with transaction.atomic():
        yield _take_fence(loop, holder) if _lock_within(loop, patience_s) else None


def _lock_within(loop: str, patience_s: float) -> bool:
    deadline_s = time.monotonic() + patience_s
    while not _try_lock(loop):
        if time.monotonic() >= deadline_s:
            return False
        time.sleep(_LOOK_AGAIN_S)
    return True


def _try_lock(loop: str) -> bool:
    key = zlib.crc32(f"tokenyard.{loop}".encode())
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_xact_lock(%s)", [key])
        (is_mine,) = cursor.fetchone()
        if is_mine:
            cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [MOST_IDLE])
        else:
            cursor.execute(_END_DEAF, [key, MOST_IDLE])
    return bool(is_mine)


def _take_fence(loop: str, holder: str) -> int:
    lease, _ = LeaderLease.objects.get_or_create(name=loop, defaults={"holder": holder, "fence": 1})
    if lease.holder != holder:
        lease.holder, lease.fence = holder, lease.fence + 1
        lease.save(update_fields=["holder", "fence"])
    return lease.fence

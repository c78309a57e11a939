"""Daily partitions of usage_record: made ahead, dropped when they are old. The rollups stay for good.

What arrived without a partition is in the default one and moves out when its day is made.
"""

import re
from datetime import UTC, date, datetime, time, timedelta

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

from apps.common.long_work import patient
from apps.usage.policies.checking import LATE_DAYS, oldest_kept

DAYS_AHEAD = 7
_NAME = re.compile(r"usage_record_(\d{8})$")
_LIST = """
SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid
WHERE inhparent = 'usage_record'::regclass ORDER BY child.relname
"""
_OLDEST = "SELECT min(arrived_at) FROM usage_record"


@patient
def make_partitions(*, now: datetime) -> list[str]:
    """Names of the partitions that were made: for every day from which a record may still come, and a week ahead."""
    today = now.date()
    days = [today + timedelta(days=offset) for offset in range(-LATE_DAYS, DAYS_AHEAD + 1)]
    return [name for day in days if (name := _make_partition(day))]


@patient
def drop_old_partitions(*, now: datetime, keep_days: int) -> list[str]:
    """Whole days that ended more than `keep_days` ago. 0 keeps everything."""
    oldest = oldest_kept(now, keep_days)
    dropped = [name for name, day in _dated_partitions() if oldest is not None and day < oldest.date()]
    for name in dropped:
        _drop(name)
    return dropped


def first_kept_day() -> datetime | None:
    """From when on every record is kept; None while none has been dropped."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT min(slot) FROM usage_total")
        (first_used,) = cursor.fetchone()
        cursor.execute(_OLDEST)
        (oldest,) = cursor.fetchone()
    if first_used is None or (oldest is not None and oldest < first_used + timedelta(minutes=15)):
        return None
    return datetime.combine(oldest.date(), time.min, tzinfo=UTC) if oldest else datetime.max.replace(tzinfo=UTC)


def _dated_partitions() -> list[tuple[str, date]]:
    with connection.cursor() as cursor:
        cursor.execute(_LIST)
        names = [name for (name,) in cursor.fetchall()]
    found = [(name, match[1]) for name in names if (match := _NAME.match(name))]
    return [(name, datetime.strptime(digits, "%Y%m%d").replace(tzinfo=UTC).date()) for name, digits in found]


@transaction.atomic
def _drop(name: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER TABLE usage_record DETACH PARTITION {name}")
        cursor.execute(f"DROP TABLE {name}")


@transaction.atomic
def _make_partition(day: date) -> str | None:
    name = f"usage_record_{day:%Y%m%d}"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('usage.partitions')), to_regclass(%s)", [name])
        if cursor.fetchone()[1] is not None:
            return None
        _fill_and_attach(cursor, name, day)
    return name


def _fill_and_attach(cursor: CursorWrapper, name: str, day: date) -> None:
    start, end = f"'{day} 00:00:00+00'", f"'{day + timedelta(days=1)} 00:00:00+00'"
    cursor.execute("LOCK TABLE usage_record_default IN SHARE ROW EXCLUSIVE MODE")
    cursor.execute(f"CREATE TABLE {name} (LIKE usage_record INCLUDING ALL)")
    moved = f"DELETE FROM usage_record_default WHERE arrived_at >= {start} AND arrived_at < {end} RETURNING *"  # noqa: S608 - dates
    cursor.execute(f"WITH moved AS ({moved}) INSERT INTO {name} SELECT * FROM moved")  # noqa: S608 - a name of our making
    cursor.execute(f"ALTER TABLE usage_record ATTACH PARTITION {name} FOR VALUES FROM ({start}) TO ({end})")

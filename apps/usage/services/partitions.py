"""Daily partitions of usage_record, made ahead. What arrived without one is in the default partition and moves out."""

from datetime import date, datetime, timedelta

from django.db import connection, transaction
from django.db.backends.utils import CursorWrapper

DAYS_BEHIND = 1
DAYS_AHEAD = 7


def make_partitions(*, now: datetime) -> list[str]:
    """Names of the partitions that were made."""
    today = now.date()
    days = [today + timedelta(days=offset) for offset in range(-DAYS_BEHIND, DAYS_AHEAD + 1)]
    return [name for day in days if (name := _make_partition(day))]


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

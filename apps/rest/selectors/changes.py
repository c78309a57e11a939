"""The log of changes, read without a gap: only what no transaction that still runs could come before."""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db import connection

from apps.common.rows import EVERY, every_tenant, visible_rows
from apps.rest.models import ForgottenChanges
from apps.rest.policies.positions import Position

_NEWEST = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint - 1"
_OF_KIND = """
SELECT transaction, id, object_id, is_gone FROM rest_change
WHERE kind = %s AND (transaction, id) > (%s, %s)
  AND transaction < pg_snapshot_xmin(pg_current_snapshot())::text::bigint
  AND (%s OR tenant_id = ANY(%s))
ORDER BY transaction, id LIMIT %s
"""
_KINDS = """
SELECT DISTINCT kind FROM rest_change
WHERE (transaction, id) > (%s, %s) AND transaction <= %s
"""
_LAST_ID = 2**63 - 1


@dataclass(frozen=True)
class Noted:
    """A change of a kind that is known from elsewhere."""

    position: Position
    object_id: UUID
    is_gone: bool


def get_newest_position() -> Position:
    """After everything that is certain not to be joined by something earlier. Read before a list, it misses nothing."""
    with connection.cursor() as cursor:
        cursor.execute(_NEWEST)
        return Position(cursor.fetchone()[0], _LAST_ID)


def is_forgotten(position: Position) -> bool:
    """Whether changes after it may have been deleted."""
    row = ForgottenChanges.objects.first()
    return row is not None and position < (row.transaction, row.change_id)


def list_changes(*, kind: str, after: Position, limit: int) -> Sequence[Noted]:
    """Of the tenants whose rows the work at hand may see; the platform's only for those who see everything."""
    visible = visible_rows()
    tenants = [UUID(each) for each in visible.split(",") if each] if visible != EVERY else []
    with connection.cursor() as cursor:
        cursor.execute(_OF_KIND, [kind, *after, visible == EVERY, tenants, limit])
        return [Noted(Position(xact, pk), object_id, is_gone) for xact, pk, object_id, is_gone in cursor.fetchall()]


def list_kinds_changed(seen: Position | None) -> tuple[set[str], Position]:
    """Kinds with changes after `seen`, of whatever tenants: for waking those who then look for themselves."""
    newest = get_newest_position()
    if seen is None:
        return set(), newest
    with every_tenant(), connection.cursor() as cursor:
        cursor.execute(_KINDS, [*seen, newest.transaction])
        return {kind for (kind,) in cursor.fetchall()}, newest

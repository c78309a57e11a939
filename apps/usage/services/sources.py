"""Which numbers of each gateway's records have come. The row of a source is locked while its records are stored."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from django.db import connection

from apps.usage.policies.sequences import Ranges, ranges_of

Source = tuple[str, str]

_OPEN = """
INSERT INTO usage_source (gateway_id, boot_id, node_id, received, first_received_at, last_received_at)
VALUES (%s, %s, %s, '{}', %s, %s) ON CONFLICT DO NOTHING
"""
_LOCK = """
SELECT lower(part), upper(part)
FROM (SELECT received FROM usage_source WHERE gateway_id = %s AND boot_id = %s FOR UPDATE) AS source,
     unnest(received) AS part
"""
_NOTE = """
UPDATE usage_source SET received = received + %s::int8multirange, last_received_at = %s
WHERE gateway_id = %s AND boot_id = %s
"""


def lock_sources(sources: Iterable[Source], *, node_id: UUID, now: datetime) -> dict[Source, Ranges]:
    """What each has sent until now. In one order, so that two batches never wait for each other in a circle."""
    return {source: _lock(source, node_id, now) for source in sorted(sources)}


def _lock(source: Source, node_id: UUID, now: datetime) -> Ranges:
    with connection.cursor() as cursor:
        cursor.execute(_OPEN, [*source, node_id, now, now])
        cursor.execute(_LOCK, source)
        return [(int(first), int(end)) for first, end in cursor.fetchall()]


def note_received(source: Source, numbers: Iterable[int], *, now: datetime) -> None:
    parts = ",".join(f"[{first},{end})" for first, end in ranges_of(numbers))
    with connection.cursor() as cursor:
        cursor.execute(_NOTE, [f"{{{parts}}}", now, *source])

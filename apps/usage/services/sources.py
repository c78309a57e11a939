"""Which numbers of each gateway's records have come. The row of a source is locked while its records are stored."""

from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from django.db import connection

from apps.usage.policies.sequences import Ranges

Source = tuple[str, str]

_LOCK = """
INSERT INTO usage_source (gateway_id, boot_id, node_id, received, first_received_at, last_received_at)
SELECT gateway_id, boot_id, node_id, '{}', now, now
FROM unnest(%s::text[], %s::text[], %s::uuid[]) AS sent(gateway_id, boot_id, node_id),
     (SELECT %s::timestamptz AS now) AS clock
ORDER BY gateway_id, boot_id
ON CONFLICT (gateway_id, boot_id) DO UPDATE SET last_received_at = excluded.last_received_at
RETURNING gateway_id, boot_id, received
"""
_NOTE = """
UPDATE usage_source AS source SET received = received + numbers
FROM unnest(%s::text[], %s::text[], %s::text[]::int8multirange[]) AS sent(gateway_id, boot_id, numbers)
WHERE source.gateway_id = sent.gateway_id AND source.boot_id = sent.boot_id
"""


def lock_sources(nodes: Mapping[Source, UUID], *, now: datetime) -> dict[Source, Ranges]:
    """What each has sent until now. In one order, so that two batches never wait for each other in a circle."""
    if not nodes:
        return {}
    gateways, boots = zip(*nodes, strict=True)
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [list(gateways), list(boots), list(nodes.values()), now])
        rows = cursor.fetchall()
    return {(gateway, boot): [(part.lower, part.upper) for part in received] for gateway, boot, received in rows}


def note_received(numbers: Mapping[Source, Ranges]) -> None:
    """Of sources that are locked."""
    if numbers:
        gateways, boots = zip(*numbers, strict=True)
        with connection.cursor() as cursor:
            cursor.execute(_NOTE, [list(gateways), list(boots), list(map(_multirange, numbers.values()))])


def _multirange(ranges: Ranges) -> str:
    return "{" + ",".join(f"[{first},{end})" for first, end in ranges) + "}"

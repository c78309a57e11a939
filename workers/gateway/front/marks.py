"""What is written into a settlement before its request is understood: whose errand it is, its trace, its delivery."""

import re
from collections.abc import Callable

from msgspec import Struct

from workers.contracts.settlement import Settlement
from workers.contracts.usage import UsageRecord
from workers.gateway.exchanges.facilities import Facilities
from workers.gateway.front.delivery import Delivery
from workers.gateway.front.introduction import Introduction
from workers.gateway.front.proofs import is_proven
from workers.gateway.http.server import ClientConnection
from workers.gateway.payload.labels import FORWARDED, PROOF, RECORD, new_trace, trace_parent
from workers.gateway.records.metering import Meter
from workers.gateway.snapshots.directory import Grant
from workers.gateway.tracing.tracer import Tracer

RandomBits = Callable[[int], int]
# An id, and when the request arrived in Unix seconds.
_RECORD = re.compile(rb"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}) ([0-9]{1,10}[.][0-9]{1,9})")


class Errand(Struct, frozen=True, eq=False):
    """A request on behalf of a key that was shown before. `keep_record` gets its usage record, called `record_id`."""

    grant: Grant
    record_id: str
    tags: dict[str, str]
    keep_record: Callable[[UsageRecord], None]


def mark_errand(meter: Meter, settlement: Settlement, errand: Errand) -> None:
    meter.identify(settlement)
    settlement.tags = errand.tags
    settlement.record_id = errand.record_id
    settlement.is_kept = True
    meter.keepers[errand.record_id] = errand.keep_record


def await_delivery(
    facilities: Facilities, client: ClientConnection, settlement: Settlement, introduction: Introduction
) -> None:
    """Of what a gateway asks that can prove to be one; a client pays for what it asked, heard or not."""
    meter = facilities.meter
    meter.identify(settlement)
    secret, proof = introduction.directory.snapshot.peer_secret, introduction.noted.get(PROOF, b"")
    if is_proven(secret, FORWARDED, settlement.request_id.encode(), proof, settlement.arrived_unix_s):
        settlement.awaits_delivery = True
        take_name(meter, settlement, introduction.noted.get(RECORD, b""))
        meter.keepers[settlement.record_id] = Delivery(client, settlement, facilities).keep


def take_name(meter: Meter, settlement: Settlement, given: bytes) -> None:
    """What the asking gateway calls the record, unless one of that name is under way: that one may still be heard."""
    found = _RECORD.fullmatch(given)
    if found is not None and found[1].decode() not in meter.awaited:
        settlement.record_id, settlement.arrived_unix_s = found[1].decode(), float(found[2])
    meter.awaited.add(settlement.record_id)


def begin_trace(
    tracer: Tracer, meter: Meter, settlement: Settlement, noted: dict[bytes, bytes], random_bits: RandomBits
) -> None:
    meter.identify(settlement)
    given = trace_parent(noted, settlement.request_id, random_bits)
    is_new = given != noted.get(b"traceparent")
    tracer.begin(settlement.record_id, given, is_new=is_new, arrived_at=settlement.arrived_at)


def trace_parent_of(
    tracer: Tracer | None, introduction: Introduction, settlement: Settlement, random_bits: RandomBits
) -> bytes:
    """What the engine is told of the trace that the request is part of."""
    if tracer is not None:
        return tracer.parent_for_engine(settlement.record_id)
    if introduction.is_untraced:
        return new_trace(settlement.request_id.encode())
    return trace_parent(introduction.noted, settlement.request_id, random_bits)

"""Whether another node's gateway has heard of the answer that it asked for; if not, nobody pays for it here.

A gateway that hears nothing of a node asks the next one, which answers and bills. The node that was cut off meanwhile
works on: it cannot know of the other, but its kernel knows whether anything of the answer has arrived. Until that is
known the record stands in the journal, as of an answer that did. A gateway whose client has left asks nobody else, and
closes its side of the connection; one that turns to another node resets it.
"""

import asyncio
import socket
import struct

import msgspec

from workers.contracts.recording import unheard
from workers.contracts.settlement import Settlement
from workers.contracts.usage import UsageRecord
from workers.gateway.exchanges.facilities import Facilities
from workers.gateway.http.server import ClientConnection

# Who asked has long turned to another node by then.
GIVE_UP_AFTER_S = 60.0
_FIRST_LOOK_AFTER_S = 0.002
_LOOK_EVERY_S = 1.0
# tcpi_bytes_acked of Linux's struct tcp_info.
_TCP_INFO_BYTES, _BYTES_ACKED_AT = 192, 120


class Delivery:
    """Of one answer. `keep` is its meter's keeper."""

    def __init__(self, client: ClientConnection, settlement: Settlement, facilities: Facilities) -> None:
        self._client = client
        self._settlement = settlement
        self._facilities = facilities
        self._heard_before = _bytes_heard(client)
        self._is_heard: bool | None = None
        self._record: UsageRecord | None = None
        self._looked_s = 0.0
        if client.before_end is not None:
            client.before_end()  # who asks again on a connection has got the answer before
        client.before_end = self._connection_ends

    def keep(self, record: UsageRecord) -> None:
        if self._is_heard is not None:
            self._end(record, is_heard=self._is_heard)
        elif self._has_arrived():
            self._end(record, is_heard=True)
        else:
            self._record = record
            self._facilities.journal.keep(record, msgspec.json.encode(record))
            self._look_again_after(_FIRST_LOOK_AFTER_S)

    def _look_again_after(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._look, seconds)

    def _look(self, waited_s: float) -> None:
        record = self._record
        if record is None:
            return
        self._looked_s += waited_s
        if self._has_arrived():
            self._end(record, is_heard=True)
        elif self._looked_s < GIVE_UP_AFTER_S:
            self._look_again_after(min(waited_s * 2, _LOOK_EVERY_S))
        else:
            self._client.transport.abort()  # and then nothing of it can arrive any more

    def _connection_ends(self) -> None:
        self._is_heard = self._client.has_left or self._has_arrived()
        if self._record is not None:
            self._end(self._record, is_heard=self._is_heard)

    def _has_arrived(self) -> bool:
        return _bytes_heard(self._client) > self._heard_before

    def _end(self, record: UsageRecord, *, is_heard: bool) -> None:
        self._record = None
        if self._client.before_end == self._connection_ends:
            self._client.before_end = None
        if is_heard:
            self._facilities.meter.write_delivered(self._settlement, record)
        else:
            self._facilities.meter.write_delivered(self._settlement, unheard(record))
            self._facilities.journal.forget(record.record_id)


def _bytes_heard(client: ClientConnection) -> int:
    """Which the other side's kernel has acknowledged, of all that was ever written to this connection."""
    connection = client.transport.get_extra_info("socket")
    known = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    return int(struct.unpack_from("=Q", known, _BYTES_ACKED_AT)[0])

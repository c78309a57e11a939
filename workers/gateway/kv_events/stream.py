"""The sockets of one engine's events: what it publishes, and what it is asked to send again."""

from typing import Literal

import zmq
import zmq.asyncio
from msgspec import Struct

from workers.contracts.endpoints import KVEvents

# Batches that wait in ZeroMQ's own memory; beyond it they are dropped, seen as missing and asked for again.
_MAX_WAITING = 1000
_RECONNECT_MS, _RECONNECT_AT_MOST_MS = 100, 2000
# At a time, so that requests get their turn between.
_MAX_AT_ONCE = 16
_END_NUMBER = 2**64 - 1


class Message(Struct, frozen=True):
    """Of kind "end" there is no payload: what was asked for has been sent."""

    kind: Literal["published", "replayed", "end"]
    number: int = 0
    payload: bytes = b""


class EventStream:
    """ZeroMQ connects when there is something to connect to, and again after it has gone."""

    def __init__(self, context: "zmq.asyncio.Context", events: KVEvents) -> None:
        self._published = context.socket(zmq.SUB)
        self._published.subscribe(b"")
        self._replayed = context.socket(zmq.DEALER)
        self._poller = zmq.asyncio.Poller()
        for socket, address in ((self._published, events.publisher), (self._replayed, events.replay)):
            socket.rcvhwm = _MAX_WAITING if socket is self._published else 0
            socket.linger = 0
            socket.reconnect_ivl, socket.reconnect_ivl_max = _RECONNECT_MS, _RECONNECT_AT_MOST_MS
            socket.connect(address)
            self._poller.register(socket, zmq.POLLIN)

    async def ask(self, number: int) -> None:
        """For all batches from this one on. Without a connection it is kept for when there is one."""
        await self._replayed.send_multipart([b"", number.to_bytes(8)])

    async def receive(self, timeout_s: float) -> list[Message]:
        ready = dict(await self._poller.poll(max(1, int(timeout_s * 1000))))
        messages: list[Message] = []
        # In this order: what was sent again is older.
        for socket in (self._replayed, self._published):
            if socket in ready:
                messages += await self._drain(socket)
        return messages

    def close(self) -> None:
        self._published.close()
        self._replayed.close()

    async def _drain(self, socket: "zmq.asyncio.Socket") -> list[Message]:
        messages: list[Message] = []
        while len(messages) < _MAX_AT_ONCE and await socket.poll(0):
            frames = await socket.recv_multipart()
            number, payload = int.from_bytes(frames[-2]), frames[-1]
            if socket is self._published:
                messages.append(Message("published", number, payload))
            elif number == _END_NUMBER:
                messages.append(Message("end"))
            else:
                messages.append(Message("replayed", number, payload))
        return messages

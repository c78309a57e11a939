"""Clients may be slow; the few threads that Django runs in are not held up by them.

A request gets a thread once all of its body is here, and an answer leaves the thread as fast as it is made: what the
client has not taken yet waits in memory, then in a file, within bounds. Else eight forms that come a byte at a time, or
eight downloads over a bad line, and nobody saw a page.
"""

import asyncio
import json
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

from apps.common.problems import CONTENT_TYPE, content_of

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

# For a body, and a second more for so many bytes.
BODY_WITHIN_S = 20.0
_BODY_BYTES_PER_S = 50_000
# So long may a client take nothing of its answer.
TAKEN_WITHIN_S = 60.0
MOST_WAITING_BYTES = 256 * 1024 * 1024
MOST_WAITING_BYTES_OF_ALL = 1024 * 1024 * 1024
_IN_MEMORY_BYTES = 512 * 1024
_PART_BYTES = 256 * 1024
# Of a body that does not say how long it is, for the time that it has.
_SUPPOSED_BYTES = 1_000_000
_MOST_DIGITS = 18


class ClientStalledError(Exception):
    pass


class RefusedError(Exception):
    """Before any thread has heard of it."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.body = json.dumps(content_of(status, code, detail)).encode()
        self.status = status


class Room:
    """What waits for all clients together."""

    def __init__(self) -> None:
        self.waiting_bytes = 0

    @property
    def is_full(self) -> bool:
        return self.waiting_bytes >= MOST_WAITING_BYTES_OF_ALL


class SlowClients:
    """In front of an application that runs in threads."""

    def __init__(self, application: Any, *, most_body_bytes: int) -> None:
        self._application = application
        self._most_body_bytes = most_body_bytes
        self._room = Room()

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        body = Body(self._room, self._most_body_bytes)
        try:
            length = self._body_length(scope)
            if length or _is_chunked(scope):
                await body.take(receive, length or _SUPPOSED_BYTES)
                scope, receive = body.with_length(scope), body.received_by(receive)
            await self._answer(scope, receive, Outbox(send, self._room))
        except RefusedError as refused:
            headers = [(b"content-type", CONTENT_TYPE.encode()), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": refused.status, "headers": headers})
            await send({"type": "http.response.body", "body": refused.body})
        except (ConnectionError, ClientStalledError):
            return  # the server closes what has not been answered whole
        finally:
            body.free()

    def _body_length(self, scope: Message) -> int:
        given = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
        length = int(given) if given.isdigit() and len(given) <= _MOST_DIGITS else 0
        if length > self._most_body_bytes:
            raise _too_big(self._most_body_bytes)
        return length

    async def _answer(self, scope: Message, receive: Receive, outbox: "Outbox") -> None:
        sending = asyncio.create_task(outbox.run())
        try:
            await self._application(scope, receive, outbox.put)
            await sending
        finally:
            sending.cancel()
            outbox.free()


def _is_chunked(scope: Message) -> bool:
    """Its length is known at its end; Django takes one without for empty."""
    return any(name == b"transfer-encoding" for name, _ in scope["headers"])


def _too_big(most_bytes: int) -> RefusedError:
    return RefusedError(413, "too_big", f"a body has at most {most_bytes} bytes")


class Body:
    """Of one request: as it comes, and then again from the beginning."""

    def __init__(self, room: Room, most_bytes: int) -> None:
        self._room = room
        self._most_bytes = most_bytes
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by `free`
        self._written = 0

    async def take(self, receive: Receive, length: int) -> None:
        """Raises ConnectionError when the client has left."""
        try:
            async with asyncio.timeout(BODY_WITHIN_S + length / _BODY_BYTES_PER_S):
                while await self._take_part(receive):
                    pass
        except TimeoutError as error:
            raise RefusedError(408, "request_timeout", "the request took too long to arrive") from error
        self._file.seek(0)

    async def _take_part(self, receive: Receive) -> bool:
        """Whether there is more."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionError
        part = message.get("body", b"")
        self._file.write(part)
        self._written += len(part)
        self._room.waiting_bytes += len(part)
        if self._written > self._most_bytes:
            raise _too_big(self._most_bytes)
        if self._room.is_full:
            raise RefusedError(503, "unavailable", "too much comes in at once; try again")
        return bool(message.get("more_body", False))

    def with_length(self, scope: Message) -> Message:
        headers = [each for each in scope["headers"] if each[0] not in {b"content-length", b"transfer-encoding"}]
        return scope | {"headers": [*headers, (b"content-length", str(self._written).encode())]}

    def received_by(self, receive: Receive) -> Receive:
        """What has come in the place of what comes."""
        has_more = True

        async def again() -> Message:
            nonlocal has_more
            if not has_more:
                return await receive()
            part = self._file.read(_PART_BYTES)
            has_more = self._file.tell() < self._written
            return {"type": "http.request", "body": part, "more_body": has_more}

        return again

    def free(self) -> None:
        self._room.waiting_bytes -= self._written
        self._written = 0
        self._file.close()


class Outbox:
    """Of one answer: `put` takes what it says at once, `run` sends it as the client takes it."""

    def __init__(self, send: Send, room: Room) -> None:
        self._send = send
        self._room = room
        self._head: Message | None = None
        self._file = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY_BYTES)  # noqa: SIM115 - closed by `free`
        self._written = self._sent = 0
        self._is_complete = False
        self._is_over = False
        self._more = asyncio.Event()
        self._caught_up = asyncio.Event()

    async def put(self, message: Message) -> None:
        """Waits only where too much waits already. Raises ClientStalledError when nobody takes it any more."""
        if message["type"] == "http.response.start":
            self._head = message
            return
        while self._written and self._is_full() and not self._is_over:
            self._caught_up.clear()
            await self._caught_up.wait()
        if self._is_over:
            raise ClientStalledError
        self._write(message.get("body", b""))
        self._is_complete = not message.get("more_body", False)
        self._more.set()

    def _is_full(self) -> bool:
        return self._written >= MOST_WAITING_BYTES or self._room.is_full

    def _write(self, part: bytes) -> None:
        self._file.seek(self._written)
        self._file.write(part)
        self._written += len(part)
        self._room.waiting_bytes += len(part)

    async def run(self) -> None:
        try:
            is_over = False
            while not is_over:
                await self._more.wait()
                is_over = await self._send_part()
        except TimeoutError as error:
            raise ClientStalledError from error
        finally:  # however it ended: who waits for room would wait in a thread of Django's
            self._is_over = True
            self._caught_up.set()

    async def _send_part(self) -> bool:
        """Whether it was the last."""
        async with asyncio.timeout(TAKEN_WITHIN_S):
            if self._head is not None:
                head, self._head = self._head, None
                await self._send(head)
            self._file.seek(self._sent)
            part = self._file.read(_PART_BYTES)
            self._sent += len(part)
            is_last = self._is_complete and self._sent == self._written
            if part or is_last:
                await self._send({"type": "http.response.body", "body": part, "more_body": not is_last})
        if self._sent == self._written:
            self._begin_anew()
        return is_last

    def _begin_anew(self) -> None:
        """Everything has been taken: the file's room is free again."""
        self._room.waiting_bytes -= self._written
        self._written = self._sent = 0
        self._file.seek(0)
        self._file.truncate()
        if not self._is_complete:
            self._more.clear()
        self._caught_up.set()

    def free(self) -> None:
        self._room.waiting_bytes -= self._written
        self._written = 0
        self._file.close()

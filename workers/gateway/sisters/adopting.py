"""What sisters pass to this process is gone on with: a client's connection as if it had come here at once."""

import asyncio
import logging
import socket
from collections.abc import Callable

from workers.gateway.http.request_heads import RefusedRequestError
from workers.gateway.http.server import ClientConnection
from workers.gateway.sisters.channel import Passed, receive

logger = logging.getLogger(__name__)

# So that what is read from clients has its turn too.
AT_ONCE = 64

TakeErrand = Callable[[bytes, socket.socket], None]


class _Newcomer(asyncio.Protocol):
    """Becomes the client's connection as soon as there is a transport, before anything is read from it."""

    def __init__(self, passed: Passed, open_connection: Callable[[int], ClientConnection]) -> None:
        self._passed = passed
        self._open_connection = open_connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        passed = self._passed
        connection = self._open_connection(passed.hops)
        transport.set_protocol(connection)
        connection.connection_made(transport)
        refusal = RefusedRequestError(*passed.refusal) if passed.refusal is not None else None
        connection.go_on_with(passed.content, passed.arrived_at, refusal)


class Adopter:
    """Reads the inbox. `open_connection` makes a client's connection that has been passed so often."""

    def __init__(
        self,
        inbox: socket.socket,
        open_connection: Callable[[int], ClientConnection],
        take_errand: TakeErrand,
    ) -> None:
        self._inbox = inbox
        self._open_connection = open_connection
        self._take_errand = take_errand
        self._loop = asyncio.get_running_loop()
        self._opening: set[asyncio.Task[None]] = set()
        self.adopted = 0

    def start(self) -> None:
        self._loop.add_reader(self._inbox.fileno(), self._read)

    def stop(self) -> None:
        self._loop.remove_reader(self._inbox.fileno())

    def _read(self) -> None:
        for _ in range(AT_ONCE):
            try:
                found = receive(self._inbox)
            except (EOFError, OSError):
                self.stop()
                return
            if found is None:
                return
            self._take(*found)

    def _take(self, passed: Passed, descriptor: socket.socket) -> None:
        if passed.kind == "errand":
            self._take_errand(passed.content, descriptor)
            return
        self.adopted += 1
        task = self._loop.create_task(self._open(passed, descriptor))
        self._opening.add(task)
        task.add_done_callback(self._opening.discard)

    async def _open(self, passed: Passed, descriptor: socket.socket) -> None:
        descriptor.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(lambda: _Newcomer(passed, self._open_connection), descriptor)
        except OSError as error:
            logger.info("a client that was passed to this process has left: %s", error)
            descriptor.close()

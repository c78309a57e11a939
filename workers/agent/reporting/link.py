"""The agent's websocket to the control plane (frames: workers/contracts/link.py). Connects again for ever."""

import asyncio
import logging
from collections.abc import Callable
from random import Random

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

from workers.contracts.link import (
    CLOSE_REMOVED,
    DesiredPush,
    FromAgent,
    Hello,
    PromptAck,
    SnapshotPush,
    UsageAck,
    Welcome,
    decode_to_agent,
    is_unknown,
)

log = logging.getLogger(__name__)

_OPEN_TIMEOUT_S = 5.0
_PING_S = 10.0
_FIRST_WAIT_S = 0.25
# Of one whose node was removed: it may have been put back.
_REMOVED_WAIT_S = 60.0
# A control plane that is back should have every agent back within 5 s.
_LONGEST_WAIT_S = 3.0
_WELCOME_TIMEOUT_S = 10.0
_MAX_FRAME_BYTES = 64 * 1024 * 1024

Receive = Callable[[SnapshotPush | DesiredPush | UsageAck | PromptAck], None]


class Link:
    """`welcomed`, `removed` and `receive` are called for what comes; none may block.

    `random` spreads agents' reconnections.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        hello: Callable[[], Hello],
        welcomed: Callable[[Welcome], None],
        removed: Callable[[], None],
        receive: Receive,
        random: Random,
    ) -> None:
        self._url = url
        self._token = token
        self._hello = hello
        self._welcomed = welcomed
        self._removed = removed
        self._receive = receive
        self._random = random
        self._connection: ClientConnection | None = None
        self._is_removed = False

    @property
    def is_up(self) -> bool:
        return self._connection is not None

    async def send(self, frame: FromAgent) -> None:
        """Raises ConnectionError when there is no link, or none any more."""
        connection = self._connection
        if connection is None:
            raise ConnectionError("no link to the control plane")
        try:
            await connection.send(msgspec.json.encode(frame).decode())
        except WebSocketException as error:
            raise ConnectionError(f"the link broke: {error}") from error

    async def run(self) -> None:
        wait_s = _FIRST_WAIT_S
        while True:
            was_welcome = await self._connect_once()
            if self._is_removed:
                wait_s = _REMOVED_WAIT_S
            else:
                wait_s = _FIRST_WAIT_S if was_welcome else min(2 * wait_s, _LONGEST_WAIT_S)
            await asyncio.sleep(wait_s * self._random.uniform(0.5, 1.0))

    async def _connect_once(self) -> bool:
        """Until the link ends; whether there was one at all."""
        was_welcome = self._is_removed = False
        try:
            async with self._open() as connection:
                await self._greet(connection)
                was_welcome = True
                self._connection = connection
                log.info("linked to the control plane")
                async for frame in connection:
                    self._take(frame)
        except (OSError, WebSocketException, msgspec.DecodeError) as error:
            log.warning("no link to the control plane: %s", error or type(error).__name__)
            self._note_removal(error)
        finally:
            self._connection = None
        return was_welcome

    def _note_removal(self, error: Exception) -> None:
        end = error.rcvd if isinstance(error, ConnectionClosed) else None
        if end is not None and end.code == CLOSE_REMOVED:
            self._is_removed = True
            self._removed()

    def _open(self) -> connect:
        return connect(
            self._url,
            additional_headers={"Authorization": f"Bearer {self._token}"},
            compression=None,
            proxy=None,
            open_timeout=_OPEN_TIMEOUT_S,
            ping_interval=_PING_S,
            ping_timeout=_PING_S,
            close_timeout=1,
            max_size=_MAX_FRAME_BYTES,
        )

    async def _greet(self, connection: ClientConnection) -> None:
        await connection.send(msgspec.json.encode(self._hello()).decode())
        async with asyncio.timeout(_WELCOME_TIMEOUT_S):
            frame = decode_to_agent(await connection.recv())
        if not isinstance(frame, Welcome):
            raise ConnectionError(f"{type(frame).__name__} came before Welcome")
        self._welcomed(frame)

    def _take(self, text: str | bytes) -> None:
        try:
            frame = decode_to_agent(text)
        except msgspec.DecodeError:
            if not is_unknown(text):
                raise
            log.warning("passed over what a newer control plane has sent: %.60s", text)
            return
        if isinstance(frame, Welcome):
            raise ConnectionError("a second Welcome")
        self._receive(frame)

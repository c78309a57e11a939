"""/ws/console/: the last 15 minutes once, then a frame a second, for operators."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from typing import Any

from channels.generic.websocket import AsyncJsonWebsocketConsumer

from apps.console.selectors.live import read_frame, read_history
from apps.identity.selectors import find_person_of
from apps.routing.consumers.database import in_database_thread
from apps.tenants.matrix import Permission, may_somewhere
from apps.tenants.selectors import actor_of

CLOSE_UNAUTHORISED = 4401
CLOSE_FORBIDDEN = 4403
FRAME_EVERY_S = 1.0
_FRESH_FOR_S = 0.9


class SharedFrame:
    """The newest frame of this process, read again once it is old; one reader at a time, however many look."""

    def __init__(self) -> None:
        self._frame: dict[str, Any] = {}
        self._read_at_s = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self) -> dict[str, Any]:
        async with self._lock:
            if time.monotonic() - self._read_at_s >= _FRESH_FOR_S:
                self._frame = await in_database_thread(read_frame, now_s=time.time())
                self._read_at_s = time.monotonic()
            return self._frame


_shared_frame = SharedFrame()


class LiveConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    rule = Permission.OPERATE
    pushing: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        refusal = await in_database_thread(_refusal_for, self.scope)
        await self.accept()
        if refusal is not None:
            await self.close(code=refusal)
            return
        self.pushing = asyncio.create_task(self._push())

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - Channels' signature
        if self.pushing is not None:
            self.pushing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.pushing

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None, **_: Any) -> None:
        """The console only listens; whatever a client sends is ignored."""

    async def _push(self) -> None:
        await self.send_json(await in_database_thread(read_history))
        while True:
            if refusal := await in_database_thread(_refusal_for, self.scope):
                await self.close(code=refusal)
                return
            await self.send_json(await _shared_frame.get())
            await asyncio.sleep(FRAME_EVERY_S)


def _refusal_for(scope: Mapping[str, Any]) -> int | None:
    """Asked again each second: a role that is taken away or a session that is ended closes the socket."""
    user = scope.get("user")
    if user is None or not user.is_authenticated:
        return CLOSE_UNAUTHORISED
    person = find_person_of(scope["session"], user.pk)
    if person is None:
        return CLOSE_UNAUTHORISED
    return None if may_somewhere(actor_of(person), LiveConsumer.rule) else CLOSE_FORBIDDEN

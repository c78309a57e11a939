"""/ws/console/: the last 15 minutes once, then a frame a second of what the page says it shows, for operators."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Any

from channels.generic.websocket import AsyncJsonWebsocketConsumer

from apps.console.policies.shown import Shown, read_keys
from apps.console.selectors.live import Frame, read_frame, read_history, told_verdict
from apps.identity.selectors import find_person_of
from apps.routing.consumers.database import in_database_thread
from apps.tenants.matrix import Permission, may_somewhere
from apps.tenants.selectors import actor_of

log = logging.getLogger(__name__)

CLOSE_TRY_LATER = 1013
CLOSE_UNAUTHORISED = 4401
CLOSE_FORBIDDEN = 4403
FRAME_EVERY_S = 1.0
_FRESH_FOR_S = 0.9


class SharedFrame:
    """The newest frame of this process, read again once it is old; one reader at a time, however many look."""

    def __init__(self) -> None:
        self._frame: Frame | None = None
        self._read_at_s = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self) -> Frame:
        async with self._lock:
            if self._frame is None or time.monotonic() - self._read_at_s >= _FRESH_FOR_S:
                self._frame = await in_database_thread(read_frame, now_s=time.time())
                self._read_at_s = time.monotonic()
            return self._frame


_shared_frame = SharedFrame()


class LiveConsumer(AsyncJsonWebsocketConsumer):  # type: ignore[misc]  # Channels has no types
    rule = Permission.OPERATE
    pushing: asyncio.Task[None] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._shown = Shown()

    async def connect(self) -> None:
        refusal = await in_database_thread(_refusal_for, self.scope)
        await self.accept()
        if refusal is not None:
            await self.close(code=refusal)
            return
        self.pushing = asyncio.create_task(self._push_or_close())

    async def disconnect(self, code: int) -> None:  # noqa: ARG002 - Channels' signature
        if self.pushing is not None:
            self.pushing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.pushing

    async def receive(self, text_data: str | None = None, **_: Any) -> None:
        """A page names the keys that it shows; whatever else a client sends is ignored."""
        keys = read_keys(text_data)
        if keys is not None:
            self._shown.ask(keys)

    async def _push_or_close(self) -> None:
        """A page whose figures cannot be read comes again; one that is told nothing any more would stand still."""
        try:
            await self._push()
        except Exception:
            log.exception("live figures could not be read or sent")
            with contextlib.suppress(OSError, RuntimeError):  # the page has gone
                await self.close(code=CLOSE_TRY_LATER)

    async def _push(self) -> None:
        await self.send_json(await in_database_thread(read_history, now_s=time.time()))
        while True:
            if refusal := await in_database_thread(_refusal_for, self.scope):
                await self.close(code=refusal)
                return
            await self.send_json(self._message_of(await _shared_frame.get()))
            await asyncio.sleep(FRAME_EVERY_S)

    def _message_of(self, frame: Frame) -> dict[str, Any]:
        return {
            "type": "frame",
            "at": frame.at_s,
            "verdict": told_verdict(frame.verdict),
            "values": self._shown.changes(frame.values.get),
            "samples": frame.samples,
        }


def _refusal_for(scope: Mapping[str, Any]) -> int | None:
    """Asked again each second: a role that is taken away or a session that is ended closes the socket."""
    user = scope.get("user")
    if user is None or not user.is_authenticated:
        return CLOSE_UNAUTHORISED
    person = find_person_of(scope["session"], user.pk)
    if person is None:
        return CLOSE_UNAUTHORISED
    return None if may_somewhere(actor_of(person), LiveConsumer.rule) else CLOSE_FORBIDDEN

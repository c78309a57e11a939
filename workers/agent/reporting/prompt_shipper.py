"""Sealed prompts → control plane: each file of `prompts/` is sent, oldest first, and deleted once it is stored."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec

from workers.contracts.link import PromptAck, PromptBatch
from workers.contracts.prompts import PromptFile, SealedPrompt

log = logging.getLogger(__name__)

_POLL_S = 1.0
_ACK_TIMEOUT_S = 10.0


class PromptShipper:
    """One file is under way at a time. `send` raises ConnectionError when there is no link."""

    def __init__(self, directory: Path, send: Callable[[PromptBatch], Awaitable[None]]) -> None:
        self._directory = directory
        self._send = send
        self._awaited: tuple[str, asyncio.Future[PromptAck]] | None = None

    def acknowledged(self, ack: PromptAck) -> None:
        if self._awaited and self._awaited[0] == ack.batch_id and not self._awaited[1].done():
            self._awaited[1].set_result(ack)

    async def run(self) -> None:
        while True:
            if not await self._turn():
                await asyncio.sleep(_POLL_S)

    async def _turn(self) -> bool:
        """Whether one went: then there may be another at once."""
        try:
            path = min(self._directory.glob("[!.]*.json"), default=None)
            if path is None:
                return False
            await self._ship(path)
        except OSError as error:  # a lost link and a missed answer are such, too
            log.debug("prompts wait: %s", error or type(error).__name__)
            return False
        path.unlink(missing_ok=True)
        return True

    async def _ship(self, path: Path) -> None:
        prompts = _read(path)
        future: asyncio.Future[PromptAck] = asyncio.get_running_loop().create_future()
        self._awaited = (path.name, future)
        try:
            await self._send(PromptBatch(batch_id=path.name, prompts=prompts))
            async with asyncio.timeout(_ACK_TIMEOUT_S):
                await future
        finally:
            self._awaited = None


def _read(path: Path) -> list[SealedPrompt]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=PromptFile).prompts
    except msgspec.DecodeError:
        log.error("%s is damaged and goes", path.name)  # noqa: TRY400 - the file is to blame, not our code
        return []

"""Prompts that came, to be put into tokens when there is time: bounded, and never waited for."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

import msgspec
from msgspec import Struct

from workers.gateway.errors import GatewayError
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.http.upstream import UpstreamError
from workers.gateway.kv_events.figures import KVEventFigures
from workers.gateway.kv_events.tokenizing import is_translatable, name_text_blocks
from workers.gateway.kv_events.translation import Translation
from workers.gateway.kv_events.trust import Trust
from workers.scheduling.interface import KVChange

logger = logging.getLogger(__name__)

MAX_WAITING = 256
MAX_WAITING_BYTES = 16 * 1024 * 1024
# An engine's front end is asked no more than so often.
PAUSE_S = 0.02
# The first prompt's own events tell the size of blocks.
_SIZE_WITHIN_S = 2.0
_LOOK_EACH_S = 0.05


class Prompt(Struct, eq=False):
    """`pool` leads to the engine that is asked. Without a body it has only been used again."""

    translation: Translation
    trust: Trust
    pool: EnginePool
    served_name: str
    blocks: tuple[int, ...]
    body: bytes


class Learner:
    def __init__(
        self,
        tell: Callable[[str, list[KVChange]], None],
        figures: KVEventFigures,
        monotonic: Callable[[], float],
    ) -> None:
        self._tell = tell
        self._figures = figures
        self._monotonic = monotonic
        self._waiting: deque[Prompt] = deque()
        self._waiting_bytes = 0
        self._wake = asyncio.Event()

    def add(self, prompt: Prompt) -> None:
        """Dropped when too many wait: it will come again, or does not matter."""
        if len(self._waiting) >= MAX_WAITING or self._waiting_bytes + len(prompt.body) > MAX_WAITING_BYTES:
            self._figures.prompts["dropped"] += 1
            return
        self._waiting.append(prompt)
        self._waiting_bytes += len(prompt.body)
        self._wake.set()

    async def run(self) -> None:
        while True:
            await self._wake.wait()
            while self._waiting:
                prompt = self._waiting.popleft()
                self._waiting_bytes -= len(prompt.body)
                await self._take(prompt)
            self._wake.clear()

    async def _take(self, prompt: Prompt) -> None:
        translation = prompt.translation
        translation.used(prompt.blocks)
        if not prompt.body or translation.known(prompt.blocks) == len(prompt.blocks):
            return
        try:
            await self._learn(prompt)
        except (UpstreamError, TimeoutError, GatewayError, msgspec.DecodeError) as error:
            self._figures.prompts["failed"] += 1
            logger.debug("the tokens of a prompt are not known: %s", error)
        except Exception:
            logger.exception("a prompt could not be put into tokens")
        await asyncio.sleep(PAUSE_S)

    async def _learn(self, prompt: Prompt) -> None:
        translation, blocks = prompt.translation, prompt.blocks
        if not is_translatable(prompt.body) or not await _is_size_known(translation):
            return
        names = await name_text_blocks(
            prompt.pool, prompt.served_name, prompt.body, len(blocks), translation.block_tokens
        )
        if not names:
            return
        for endpoint_id, changes in translation.learn(blocks, names).items():
            self._tell(endpoint_id, changes)
        prompt.trust.expect(names[0], self._monotonic())
        self._figures.prompts["learned"] += 1


async def _is_size_known(translation: Translation) -> bool:
    for _ in range(round(_SIZE_WITHIN_S / _LOOK_EACH_S)):
        if translation.block_tokens:
            return True
        await asyncio.sleep(_LOOK_EACH_S)
    return False

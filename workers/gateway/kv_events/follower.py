"""Follows one engine: keeps what it has cached, and tells of it as long as that is known in full."""

import logging
from collections.abc import Callable, Iterable

from workers.engines.vllm.cache_events import AllBlocksCleared, CacheEvent, UnreadableError, decode_batch
from workers.gateway.attempts.engines import Engine
from workers.gateway.http.engine_pool import EnginePool
from workers.gateway.kv_events.cached import CachedBlocks
from workers.gateway.kv_events.figures import KVEventFigures
from workers.gateway.kv_events.memory import SAVE_EVERY_S, CacheMemory
from workers.gateway.kv_events.order import Order, RestartedError
from workers.gateway.kv_events.stream import EventStream, Message
from workers.gateway.kv_events.translation import Translation
from workers.scheduling.interface import KVChange

logger = logging.getLogger(__name__)

# An engine that publishes nothing may be idle; one that does not answer for so long does not speak any more.
CHECK_EVERY_S = 5.0
SILENT_AFTER_S = 10.0
RECEIVE_WITHIN_S = 0.5

Tell = Callable[[str, list[KVChange]], None]


class EngineFollower:
    """`engine.cache_state` says how far it has come: connecting, exact, partial, silent, unreadable, distrusted.

    partial: the engine had cached something before it could be heard. It is exact again once all of that is cleared.
    """

    def __init__(
        self,
        engine: Engine,
        stream: EventStream,
        memory: CacheMemory,
        translation: Translation,
        *,
        tell: Tell,
        figures: KVEventFigures,
        monotonic: Callable[[], float],
    ) -> None:
        self._order, self.cached = memory.recall()
        self._memory = memory
        self._engine = engine
        self._endpoint_id = engine.endpoint.endpoint_id
        self._stream = stream
        self._translation = translation
        self._tell = tell
        self._figures = figures
        self._monotonic = monotonic
        self._asked_at = self._saved_at = monotonic()
        self._is_answered = False
        self._has_asked = False
        self._is_distrusted = False
        self._set_state("connecting")

    async def run(self) -> None:
        try:
            await self._follow()
        except UnreadableError as error:
            logger.warning("KV events of %s cannot be read: %s", self._endpoint_id, error)
            self._fall_back("unreadable")
        finally:
            self._stream.close()

    def distrust(self) -> None:
        """What the engine caches is not what it was expected to."""
        self._is_distrusted = True
        self._fall_back("distrusted")

    @property
    def pool(self) -> EnginePool:
        return self._engine.pool

    def stop(self) -> None:
        self._change(self._translation.end(self._endpoint_id))
        self._engine.cache_state = ""

    async def _follow(self) -> None:
        await self._ask()
        while True:
            for message in await self._stream.receive(RECEIVE_WITHIN_S):
                self._take(message)
            await self._check()
            await self._save()

    async def _save(self) -> None:
        now = self._monotonic()
        if self._is_answered and now - self._saved_at > SAVE_EVERY_S:
            self._saved_at = now
            await self._memory.save(self._order, self.cached)

    def _take(self, message: Message) -> None:
        try:
            if message.kind == "published":
                self._apply_all(self._order.published(message.number, message.payload))
            elif message.kind == "replayed":
                self._apply_all(self._order.replayed(message.number, message.payload))
            else:
                self._replay_ended()
        except RestartedError:
            self._figures.restarts += 1
            self._begin_again()

    def _apply_all(self, payloads: Iterable[bytes]) -> None:
        for payload in payloads:
            self._figures.batches += 1
            self._apply(decode_batch(payload))
        if self._is_answered:
            self._settle()

    def _apply(self, events: list[CacheEvent]) -> None:
        if any(isinstance(event, AllBlocksCleared) for event in events):
            self._order.is_complete = True
        if self._is_told():
            self._change(self._translation.apply(self._endpoint_id, events))
        else:
            for event in events:
                for _ in self.cached.apply(event):
                    pass

    def _replay_ended(self) -> None:
        gaps = self._order.gaps
        if self._order.replay_ended():
            self._has_asked = False
            return
        self._figures.gaps += self._order.gaps - gaps
        self._has_asked, self._is_answered = False, True
        self._apply_all(self._order.drain())

    def _settle(self) -> None:
        """Tells from now on, or no more, as it is known in full or not."""
        if self._is_distrusted:
            return
        if not self._order.is_complete or not self._translation.agree(self.cached.block_tokens):
            self._fall_back("partial")
        elif not self._is_told():
            self._change(self._translation.begin(self._endpoint_id, self.cached))
            self._set_state("exact")

    async def _check(self) -> None:
        waited_s = self._monotonic() - self._asked_at
        if self._has_asked and waited_s > SILENT_AFTER_S:
            self._is_answered = False
            self._fall_back("silent")
            await self._ask()
        elif self._has_asked:
            return
        elif self._order.has_gap or not self._is_answered or waited_s > CHECK_EVERY_S:
            await self._ask()

    async def _ask(self) -> None:
        self._has_asked = True
        self._asked_at = self._monotonic()
        await self._stream.ask(self._order.ask_from())

    def _begin_again(self) -> None:
        self._fall_back("connecting")
        self.cached = CachedBlocks()
        self._order = Order()
        self._has_asked = self._is_answered = False

    def _fall_back(self, reason: str) -> None:
        if self._is_told():
            self._figures.fallbacks[reason] += 1
            logger.warning("the prefix index of %s is approximate: %s", self._endpoint_id, reason)
            self._change(self._translation.end(self._endpoint_id))
        self._set_state(reason)

    def _is_told(self) -> bool:
        return self._translation.tells(self._endpoint_id)

    def _change(self, changes: list[KVChange]) -> None:
        if changes:
            self._tell(self._endpoint_id, changes)

    def _set_state(self, state: str) -> None:
        self._engine.cache_state = state

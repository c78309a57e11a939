"""Publishes what the cache stores and drops, as vLLM's ZMQ publisher does: PUB what is new, ROUTER what was missed."""

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence

import msgspec
import zmq
import zmq.asyncio
from msgspec import Struct

from workers.engines.fake.model.kv_blocks import CacheNews

_END_NUMBER = (-1).to_bytes(8, signed=True)
# Tokens of blocks that may yet be stored.
_MAX_REMEMBERED = 500_000
_HASH_BYTES = 8


class KVEventsConfig(Struct, frozen=True, kw_only=True):
    """As vLLM's --kv-events-config, of which the other fields are taken and left."""

    enable_kv_cache_events: bool = False
    endpoint: str = "tcp://*:5557"
    replay_endpoint: str | None = None
    buffer_steps: int = 10_000
    topic: str = ""


class BlockTokens:
    """Which tokens a block has and which block it follows, by its hash."""

    def __init__(self, block_tokens: int) -> None:
        self.block_tokens = block_tokens
        self._known: OrderedDict[bytes, tuple[bytes | None, tuple[int, ...], str]] = OrderedDict()

    def note(self, hashes: Sequence[bytes], tokens: Sequence[int], salt: str) -> None:
        size, parent = self.block_tokens, None
        for index, block in enumerate(hashes):
            self._known[block] = (parent, tuple(tokens[index * size : (index + 1) * size]), "" if parent else salt)
            parent = block
        while len(self._known) > _MAX_REMEMBERED:
            self._known.popitem(last=False)

    def stored_event(self, block: bytes) -> dict[str, object] | None:
        if block not in self._known:
            return None
        parent, tokens, salt = self._known[block]
        return {
            "type": "BlockStored",
            "block_hashes": [_shown(block)],
            "parent_block_hash": None if parent is None else _shown(parent),
            "token_ids": tokens,
            "block_size": self.block_tokens,
            "lora_id": None,
            "medium": "GPU",
            "lora_name": None,
            "extra_keys": [[salt] if salt else None],
            "group_idx": 0,
        }


class KVEventPublisher:
    """`is_silent` neither publishes nor answers, and the engine works on; `loses_next` batches are not sent at once."""

    def __init__(self, config: KVEventsConfig, tokens: BlockTokens) -> None:
        self.tokens = tokens
        self.is_silent = False
        self.loses_next = 0
        self._config = config
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=config.buffer_steps)
        self._next_number = 0
        self._context = zmq.asyncio.Context()
        self._published = self._context.socket(zmq.PUB)
        self._published.bind(config.endpoint)
        self._replayed = self._context.socket(zmq.ROUTER)
        self._answering: asyncio.Task[None] | None = None
        if config.replay_endpoint:
            self._replayed.bind(config.replay_endpoint)
            self._answering = asyncio.get_running_loop().create_task(self._answer())

    def publish(self, news: Iterable[CacheNews]) -> None:
        events = [event for each in news if (event := self._event(each)) is not None]
        if not events:
            return
        payload = msgspec.msgpack.encode([time.time(), events, 0])
        number, self._next_number = self._next_number, self._next_number + 1
        self._kept.append((number, payload))
        if self.is_silent:
            return
        if self.loses_next:
            self.loses_next -= 1
            return
        # A PUB socket never waits: what nobody takes is dropped.
        self._published.send_multipart([self._config.topic.encode(), number.to_bytes(8), payload])

    def close(self) -> None:
        if self._answering is not None:
            self._answering.cancel()
        self._context.destroy(linger=0)

    def _event(self, news: CacheNews) -> dict[str, object] | None:
        what, block = news
        if what == "cleared":
            return {"type": "AllBlocksCleared"}
        if what == "stored":
            return self.tokens.stored_event(block)
        return {"type": "BlockRemoved", "block_hashes": [_shown(block)], "medium": "GPU", "group_idx": 0}

    async def _answer(self) -> None:
        while True:
            frames = await self._replayed.recv_multipart()
            if len(frames) != 3 or self.is_silent:  # noqa: PLR2004 - who asks, nothing, from where on
                continue
            who, first = frames[0], int.from_bytes(frames[2])
            topic = self._config.topic.encode()
            for number, payload in list(self._kept):
                if number >= first:
                    await self._send([who, b"", topic, number.to_bytes(8), payload])
            await self._send([who, b"", b"", _END_NUMBER, b""])

    async def _send(self, frames: list[bytes]) -> None:
        with contextlib.suppress(zmq.ZMQError):
            await self._replayed.send_multipart(frames)


def _shown(block: bytes) -> int:
    return int.from_bytes(block[:_HASH_BYTES])

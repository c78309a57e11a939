"""What was known of an engine's cache, on disk: a gateway that starts again need not have heard all of its life."""

import asyncio
import logging
import sys
from hashlib import blake2b
from pathlib import Path

import msgspec
from msgspec import Struct

from workers.contracts.layout import write_whole
from workers.gateway.kv_events.cached import BlockHash, CachedBlocks
from workers.gateway.kv_events.order import Order

logger = logging.getLogger(__name__)

# What has come since then the engine keeps (workers/engines/kv_sockets.py): more than so many batches at any pace.
SAVE_EVERY_S = 60.0
# Names of blocks are hashes of tuples, which another Python may make otherwise.
_MADE_BY = sys.version


class Remembered(Struct, frozen=True, kw_only=True):
    """Everything up to `next_number`; `last` tells whether the engine is still the same."""

    made_by: str
    next_number: int
    last: bytes
    block_tokens: int
    names: dict[BlockHash, int]
    counts: dict[int, int]


_decode = msgspec.msgpack.Decoder(Remembered).decode


class CacheMemory:
    """One engine's file. Without a directory nothing is remembered."""

    def __init__(self, directory: Path | None, endpoint_id: str) -> None:
        name = blake2b(endpoint_id.encode(), digest_size=8).hexdigest()
        self._path = None if directory is None else directory / f"{name}.cache"
        self._saved_number = 0

    def recall(self) -> tuple[Order, CachedBlocks]:
        """From the beginning where there is nothing, or nothing that can be read."""
        remembered = self._read()
        if remembered is None or remembered.made_by != _MADE_BY:
            return Order(), CachedBlocks()
        self._saved_number = remembered.next_number
        cached = CachedBlocks(remembered.names, remembered.counts)
        cached.block_tokens = remembered.block_tokens
        return Order(remembered.next_number, remembered.last), cached

    async def save(self, order: Order, cached: CachedBlocks) -> None:
        """What is not known in full is not worth remembering."""
        if self._path is None or not order.is_complete or order.next_number == self._saved_number:
            return
        self._saved_number = order.next_number
        content = msgspec.msgpack.encode(
            Remembered(
                made_by=_MADE_BY,
                next_number=order.next_number,
                last=order.last_digest,
                block_tokens=cached.block_tokens,
                names=cached.names,
                counts=cached.counts,
            )
        )
        try:
            await asyncio.to_thread(self._write, self._path, content)
        except OSError as error:
            logger.warning("what is cached is not remembered: %s", error)

    def _read(self) -> Remembered | None:
        if self._path is None:
            return None
        try:
            return _decode(self._path.read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            logger.warning("%s is of no use: %s", self._path, error)
            return None

    @staticmethod
    def _write(path: Path, content: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content, is_durable=False)

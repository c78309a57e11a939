"""Paged KV cache with prefix caching: counts of blocks, and the identity of the cached ones."""

from collections.abc import Sequence as Run
from typing import Literal

CacheNews = tuple[Literal["stored", "removed", "cleared"], bytes]


class KVBlocks:
    """A block is private to one sequence, shared (cached, in use), idle (cached, evictable) or empty.

    Where a block lies does not matter to time, so only cached blocks have an identity: the hash of everything up to
    and including the block. Idle blocks leave in the order in which they fell idle. `news` is what has changed of them,
    for who takes it; None where nobody does.
    """

    def __init__(self, total: int, *, is_caching: bool = True) -> None:
        self.total = total
        self._is_caching = is_caching
        self._private = 0
        self._shared: dict[bytes, int] = {}
        self._idle: dict[bytes, None] = {}
        self.news: list[CacheNews] | None = None

    def __repr__(self) -> str:
        return f"KVBlocks(private={self._private}, shared={len(self._shared)}, idle={len(self._idle)}, of {self.total})"

    @property
    def used(self) -> int:
        return self._private + len(self._shared)

    @property
    def available(self) -> int:
        """Empty ones, and cached ones that may be evicted."""
        return self.total - self.used

    @property
    def used_ratio(self) -> float:
        return self.used / self.total

    def count_cached(self, hashes: Run[bytes], limit: int) -> int:
        """How many leading blocks of a prompt are cached, at most `limit`."""
        count = 0
        for block in hashes[:limit]:
            if block not in self._shared and block not in self._idle:
                break
            count += 1
        return count

    def admit(self, cached: Run[bytes], fresh: int) -> bool:
        """Takes references to the cached blocks and `fresh` private ones; all or nothing."""
        woken = sum(block in self._idle for block in cached)
        if fresh + woken > self.available:
            return False
        for block in cached:
            self._idle.pop(block, None)
            self._shared[block] = self._shared.get(block, 0) + 1
        return self.take(fresh)

    def take(self, count: int) -> bool:
        """Makes `count` more blocks private, evicting idle ones where needed; all or nothing."""
        if count > self.available:
            return False
        empty = self.available - len(self._idle)
        for _ in range(count - empty):
            self._evict(next(iter(self._idle)))
        self._private += count
        return True

    def publish(self, hashes: Run[bytes]) -> list[bytes]:
        """Turns private blocks that are now computed into shared ones; returns those that were not cached before."""
        if not self._is_caching:
            return []
        published = []
        for block in hashes:
            if block not in self._shared and block not in self._idle:
                self._shared[block] = 1
                self._private -= 1
                published.append(block)
                if self.news is not None:
                    self.news.append(("stored", block))
        return published

    def release(self, private: int, shared: Run[bytes]) -> None:
        """Last blocks fall idle first, so that the beginning of a prompt stays cached longest."""
        self._private -= private
        for block in reversed(shared):
            references = self._shared[block] - 1
            if references:
                self._shared[block] = references
            else:
                del self._shared[block]
                self._idle[block] = None

    def forget_idle(self) -> None:
        """All that is cached, where nothing is in use."""
        if self.news is not None and not self._shared:
            self.news.append(("cleared", b""))
            self._idle.clear()
        for block in list(self._idle):
            self._evict(block)

    def _evict(self, block: bytes) -> None:
        del self._idle[block]
        if self.news is not None:
            self.news.append(("removed", block))

"""What engines that publish KV events have cached, as they say; and what we guess beside their words."""

from itertools import islice

from workers.scheduling.interface import KVChange
from workers.scheduling.prefix.levels import PREFIX_LEVELS, Level, numbers_in

MAX_EXACT_BLOCKS = 1_000_000


class ExactCache:
    """The blocks that one engine says it has, each with the one before it; `holes` are gone, and others follow them.

    `guessed` are among them by our own dispatches alone, the least recently used first.
    """

    __slots__ = ("children", "guessed", "holes", "parents")

    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}
        self.children: dict[int, int] = {}
        self.holes: dict[int, None] = {}
        self.guessed: dict[int, None] = {}

    def store(self, block: int, parent: int | None) -> bool:
        """Whether it is new."""
        if block in self.parents:
            return False
        self.parents[block] = parent
        self.holes.pop(block, None)
        if parent is not None:
            self.children[parent] = self.children.get(parent, 0) + 1
            if parent not in self.parents:
                self.holes[parent] = None
        return True

    def remove(self, block: int) -> bool:
        """Whether it was there."""
        self.guessed.pop(block, None)
        if block not in self.parents:
            return False
        parent = self.parents.pop(block)
        if parent is not None:
            self.children[parent] -= 1
            if not self.children[parent]:
                del self.children[parent]
                self.holes.pop(parent, None)
        if block in self.children:
            self.holes[block] = None
        return True

    def guess(self, block: int, parent: int | None) -> bool:
        """It should be there, and was used now. Whether it is new."""
        is_new = self.store(block, parent)
        if is_new or self.guessed.pop(block, True) is None:
            self.guessed[block] = None
        return is_new

    def chains(self) -> list[tuple[int, ...]]:
        """From the first block of a prompt to one that nothing follows; but for what follows a hole."""
        kept: dict[int, int | None] = {}
        followed: dict[int, None] = {}
        for block, parent in self.parents.items():
            if parent is None:
                kept[block] = None
            elif parent in kept:
                kept[block] = parent
                followed[parent] = None
        return [_chain_to(block, kept) for block in kept if block not in followed]


def _chain_to(block: int | None, parents: dict[int, int | None]) -> tuple[int, ...]:
    chain: list[int] = []
    while block is not None:
        chain.append(block)
        block = parents[block]
    return tuple(reversed(chain))


class ExactCaches:
    """Block → bit mask of the endpoints whose engines have it. The first hole ends a match, as in the engine."""

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}
        self._caches: dict[int, ExactCache] = {}
        self.holed = 0

    def __len__(self) -> int:
        return len(self._masks)

    def __contains__(self, endpoint: int) -> bool:
        return endpoint in self._caches

    def match(self, blocks: tuple[int, ...]) -> list[Level]:
        missing = self._masks.get(blocks[0], 0) if blocks else 0
        if missing & self.holed:
            return self._match_each(blocks, missing)
        levels: list[Level] = []
        high = len(blocks)
        while missing and high and len(levels) < PREFIX_LEVELS:
            count = self._leading(blocks, 1, high, missing)
            mask = self._masks[blocks[count - 1]] & missing
            levels.append((count, mask))
            missing &= ~mask
            high = count - 1
        return levels

    def count(self, blocks: tuple[int, ...], endpoint: int) -> int:
        """Leading blocks that this endpoint has."""
        bit = 1 << endpoint
        high = self._first_hole(blocks, endpoint) if self.holed & bit else len(blocks)
        return self._leading(blocks, 0, high, bit)

    def apply(self, endpoint: int, change: KVChange) -> None:
        """What one engine says; with its first word it has a cache here."""
        cache = self._caches.get(endpoint)
        if cache is None:
            cache = self._caches[endpoint] = ExactCache()
        parent = change.parent
        for block in change.stored:
            if cache.store(block, parent):
                self._remember(block, endpoint)
            else:
                cache.guessed.pop(block, None)
            parent = block
        removed = list(change.removed)
        excess = len(cache.parents) - MAX_EXACT_BLOCKS
        if excess > 0:
            removed += list(islice(cache.parents, excess))
        self._forget([block for block in removed if cache.remove(block)], endpoint)
        self._note_holes(endpoint)

    def guess_beside(self, blocks: tuple[int, ...], endpoint: int, max_blocks: int, told_blocks: int) -> None:
        """What comes after the `told_blocks` of a prompt that the engine's words are about."""
        cache = self._caches[endpoint]
        for index in range(len(blocks) - 1, told_blocks - 1, -1):
            if cache.guess(blocks[index], blocks[index - 1] if index else None):
                self._remember(blocks[index], endpoint)
        excess = list(islice(cache.guessed, max(0, len(cache.guessed) - max_blocks)))
        for block in excess:
            cache.remove(block)
        self._forget(excess, endpoint)
        self._note_holes(endpoint)

    def pop(self, endpoint: int) -> ExactCache | None:
        cache = self._caches.pop(endpoint, None)
        if cache is not None:
            self._forget(list(cache.parents), endpoint)
            self._note_holes(endpoint)
        return cache

    def _leading(self, blocks: tuple[int, ...], low: int, high: int, wanted: int) -> int:
        """How many leading blocks some of the `wanted` endpoints have: `low` at least and `high` at most.

        By bisection: without a hole, who has a block has all blocks before it.
        """
        masks = self._masks
        while low < high:
            middle = (low + high + 1) // 2
            if masks.get(blocks[middle - 1], 0) & wanted:
                low = middle
            else:
                high = middle - 1
        return low

    def _match_each(self, blocks: tuple[int, ...], mask: int) -> list[Level]:
        by_count: dict[int, int] = {}
        for number in numbers_in(mask):
            count = self.count(blocks, number)
            by_count[count] = by_count.get(count, 0) | 1 << number
        return sorted(((count, found) for count, found in by_count.items() if count), reverse=True)[:PREFIX_LEVELS]

    def _first_hole(self, blocks: tuple[int, ...], endpoint: int) -> int:
        holes = self._caches[endpoint].holes
        return next((index for index, block in enumerate(blocks) if block in holes), len(blocks))

    def _note_holes(self, endpoint: int) -> None:
        bit, cache = 1 << endpoint, self._caches.get(endpoint)
        self.holed = self.holed | bit if cache is not None and cache.holes else self.holed & ~bit

    def _remember(self, block: int, endpoint: int) -> None:
        self._masks[block] = self._masks.get(block, 0) | 1 << endpoint

    def _forget(self, blocks: list[int], endpoint: int) -> None:
        masks, bit = self._masks, 1 << endpoint
        for block in blocks:
            mask = masks.pop(block)
            if mask != bit:
                masks[block] = mask & ~bit

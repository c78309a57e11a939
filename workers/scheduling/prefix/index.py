"""Which endpoint has which prefixes cached: as the engine says, or else as far as our own dispatches tell."""

from workers.scheduling.interface import KVChange
from workers.scheduling.prefix.guesses import Guesses

PREFIX_LEVELS = 3
MAX_EXACT_BLOCKS = 1_000_000


class ExactCache:
    """The blocks that one engine says it has, each with the one before it; `holes` are gone, and others follow them."""

    __slots__ = ("children", "holes", "parents")

    def __init__(self) -> None:
        self.parents: dict[int, int | None] = {}
        self.children: dict[int, int] = {}
        self.holes: dict[int, None] = {}

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


class PrefixIndex:
    """Block → bit mask of endpoints, and per endpoint the blocks we guess, least recently used first.

    An endpoint that has a block has all blocks before it: of one prompt the first block is always the most recently
    used. So the longest match is found by bisection. Where an engine's own events say otherwise, the first hole ends
    the match. What we guess beside its events is in its exact cache, too.
    """

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}
        self._guesses: dict[int, Guesses] = {}
        self._exact: dict[int, ExactCache] = {}
        self._holed = 0

    def __len__(self) -> int:
        return len(self._masks)

    def is_exact(self, endpoint: int) -> bool:
        return endpoint in self._exact

    def match(self, blocks: tuple[int, ...]) -> list[tuple[int, int]]:
        """(count of leading blocks, mask of the endpoints that have them), longest first, at most PREFIX_LEVELS."""
        levels: list[tuple[int, int]] = []
        masks = self._masks
        missing = masks.get(blocks[0], 0) if blocks else 0
        if missing & self._holed:
            return self._match_each(blocks, missing)
        high = len(blocks)
        while missing and len(levels) < PREFIX_LEVELS:
            low = 1
            while low < high:
                middle = (low + high + 1) // 2
                if masks.get(blocks[middle - 1], 0) & missing:
                    low = middle
                else:
                    high = middle - 1
            mask = masks[blocks[low - 1]] & missing
            levels.append((low, mask))
            missing &= ~mask
            high = low - 1
            if high == 0:
                break
        return levels

    def count(self, blocks: tuple[int, ...], endpoint: int) -> int:
        """Leading blocks that this endpoint has."""
        masks, bit = self._masks, 1 << endpoint
        low, high = 0, len(blocks)
        if self._holed & bit:
            high = self._first_hole(blocks, endpoint)
        while low < high:
            middle = (low + high + 1) // 2
            if masks.get(blocks[middle - 1], 0) & bit:
                low = middle
            else:
                high = middle - 1
        return low

    def record(self, blocks: tuple[int, ...], endpoint: int, max_blocks: int, told_blocks: int | None = None) -> None:
        """The endpoint will have these; it keeps at most `max_blocks`.

        One that speaks for itself needs no guess, but of what comes after the `told_blocks` that its words are about.
        """
        guesses = self._guesses_of(endpoint)
        exact = self._exact.get(endpoint)
        if exact is not None:
            if told_blocks is not None:
                self._guess_beside(exact, blocks, endpoint, told_blocks)
                self._drop_guesses(exact, endpoint, max_blocks)
            return
        masks, bit = self._masks, 1 << endpoint
        for block in guesses.unknown(blocks):
            masks[block] = masks.get(block, 0) | bit
        guesses.use(blocks)
        for block in guesses.evict(max_blocks):
            self._forget(block, endpoint)

    def changed(self, endpoint: int, changes: list[KVChange]) -> None:
        """What the engine says of its cache, in order; our guesses end with its first word."""
        for change in changes:
            if change.is_last:
                self._take_as_guesses(endpoint)
                continue
            if change.is_cleared or endpoint not in self._exact:
                self.forget_endpoint(endpoint)
                self._exact[endpoint] = ExactCache()
            self._apply(self._exact[endpoint], change, endpoint)
        self._note_holes(endpoint)

    def forget_endpoint(self, endpoint: int) -> None:
        exact = self._exact.pop(endpoint, None)
        guesses = self._guesses.pop(endpoint, None)
        known = [] if guesses is None else guesses.blocks()
        for block in known if exact is None else list(exact.parents):
            self._forget(block, endpoint)
        self._holed &= ~(1 << endpoint)

    def _apply(self, exact: ExactCache, change: KVChange, endpoint: int) -> None:
        parent = change.parent
        guesses = self._guesses_of(endpoint)
        for block in change.stored:
            if exact.store(block, parent):
                self._masks[block] = self._masks.get(block, 0) | 1 << endpoint
            else:
                guesses.drop(block)
            parent = block
        removed = list(change.removed)
        excess = len(exact.parents) - MAX_EXACT_BLOCKS
        if excess > 0:
            removed += list(exact.parents)[:excess]
        for block in removed:
            guesses.drop(block)
            if exact.remove(block):
                self._forget(block, endpoint)

    def _guess_beside(self, exact: ExactCache, blocks: tuple[int, ...], endpoint: int, told_blocks: int) -> None:
        guesses, masks, bit = self._guesses_of(endpoint), self._masks, 1 << endpoint
        used: list[int] = []
        for index in range(len(blocks) - 1, told_blocks - 1, -1):
            block = blocks[index]
            if block in guesses:
                used.append(block)
            elif exact.store(block, blocks[index - 1] if index else None):
                masks[block] = masks.get(block, 0) | bit
                used.append(block)
        guesses.use(tuple(reversed(used)))

    def _drop_guesses(self, exact: ExactCache, endpoint: int, max_blocks: int) -> None:
        for block in self._guesses_of(endpoint).evict(max_blocks):
            exact.remove(block)
            self._forget(block, endpoint)
        self._note_holes(endpoint)

    def _take_as_guesses(self, endpoint: int) -> None:
        """What the engine said last stands until our own reckoning drops it; but for what follows a hole."""
        exact = self._exact.pop(endpoint, None)
        if exact is None:
            return
        kept: dict[int, None] = {}
        for block, parent in exact.parents.items():
            if parent is None or parent in kept:
                kept[block] = None
            else:
                self._forget(block, endpoint)
        guesses = self._guesses[endpoint] = Guesses()
        guesses.use(tuple(kept))

    def _guesses_of(self, endpoint: int) -> Guesses:
        guesses = self._guesses.get(endpoint)
        if guesses is None:
            guesses = self._guesses[endpoint] = Guesses()
        return guesses

    def _note_holes(self, endpoint: int) -> None:
        bit, exact = 1 << endpoint, self._exact.get(endpoint)
        self._holed = self._holed | bit if exact is not None and exact.holes else self._holed & ~bit

    def _match_each(self, blocks: tuple[int, ...], mask: int) -> list[tuple[int, int]]:
        by_count: dict[int, int] = {}
        while mask:
            bit = mask & -mask
            count = self.count(blocks, bit.bit_length() - 1)
            by_count[count] = by_count.get(count, 0) | bit
            mask ^= bit
        return sorted(((count, found) for count, found in by_count.items() if count), reverse=True)[:PREFIX_LEVELS]

    def _first_hole(self, blocks: tuple[int, ...], endpoint: int) -> int:
        holes = self._exact[endpoint].holes
        return next((index for index, block in enumerate(blocks) if block in holes), len(blocks))

    def _forget(self, block: int, endpoint: int) -> None:
        mask = self._masks[block] & ~(1 << endpoint)
        if mask:
            self._masks[block] = mask
        else:
            del self._masks[block]

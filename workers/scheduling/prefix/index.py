"""Which endpoint has which prefixes cached: as the engine says, or else as far as our own dispatches tell."""

from collections import deque
from itertools import islice, repeat

from workers.scheduling.interface import KVChange
from workers.scheduling.prefix.guesses import Guesses

PREFIX_LEVELS = 3
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
        self.changes = 0

    def __len__(self) -> int:
        return len(self._masks)

    def is_exact(self, endpoint: int) -> bool:
        return endpoint in self._exact

    def match(self, blocks: tuple[int, ...]) -> list[tuple[int, int]]:
        """(count of leading blocks, mask of the endpoints that have them), longest first, at most PREFIX_LEVELS."""
        missing = self._masks.get(blocks[0], 0) if blocks else 0
        if missing & self._holed:
            return self._match_each(blocks, missing)
        levels: list[tuple[int, int]] = []
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
        high = self._first_hole(blocks, endpoint) if self._holed & bit else len(blocks)
        return self._leading(blocks, 0, high, bit)

    def _leading(self, blocks: tuple[int, ...], low: int, high: int, wanted: int) -> int:
        """How many leading blocks some of the `wanted` endpoints have: `low` at least and `high` at most."""
        masks = self._masks
        while low < high:
            middle = (low + high + 1) // 2
            if masks.get(blocks[middle - 1], 0) & wanted:
                low = middle
            else:
                high = middle - 1
        return low

    def record(self, blocks: tuple[int, ...], endpoint: int, max_blocks: int, told_blocks: int | None = None) -> None:
        """The endpoint will have these; it keeps at most `max_blocks`.

        One that speaks for itself needs no guess, but of what comes after the `told_blocks` that its words are about.
        """
        self.changes += 1
        exact = self._exact.get(endpoint)
        if exact is not None:
            if told_blocks is not None:
                self._guess_beside(exact, blocks, endpoint, told_blocks)
                self._drop_guesses(exact, endpoint, max_blocks)
            return
        guesses = self._guesses_of(endpoint)
        self._remember_run(guesses.use(blocks), endpoint)
        for run in guesses.evict(max_blocks):
            self._forget_run(run, endpoint)

    def changed(self, endpoint: int, changes: list[KVChange]) -> None:
        """What the engine says of its cache, in order; our guesses end with its first word."""
        self.changes += 1
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
        self.changes += 1
        exact = self._exact.pop(endpoint, None)
        guesses = self._guesses.pop(endpoint, None)
        known = [] if guesses is None else guesses.blocks()
        self._forget(known if exact is None else list(exact.parents), endpoint)
        self._holed &= ~(1 << endpoint)

    def _apply(self, exact: ExactCache, change: KVChange, endpoint: int) -> None:
        parent = change.parent
        for block in change.stored:
            if exact.store(block, parent):
                self._remember((block,), endpoint)
            else:
                exact.guessed.pop(block, None)
            parent = block
        removed = list(change.removed)
        excess = len(exact.parents) - MAX_EXACT_BLOCKS
        if excess > 0:
            removed += list(islice(exact.parents, excess))
        self._forget([block for block in removed if exact.remove(block)], endpoint)

    def _guess_beside(self, exact: ExactCache, blocks: tuple[int, ...], endpoint: int, told_blocks: int) -> None:
        for index in range(len(blocks) - 1, told_blocks - 1, -1):
            if exact.guess(blocks[index], blocks[index - 1] if index else None):
                self._remember((blocks[index],), endpoint)

    def _drop_guesses(self, exact: ExactCache, endpoint: int, max_blocks: int) -> None:
        excess = list(islice(exact.guessed, max(0, len(exact.guessed) - max_blocks)))
        for block in excess:
            exact.remove(block)
        self._forget(excess, endpoint)
        self._note_holes(endpoint)

    def _take_as_guesses(self, endpoint: int) -> None:
        """What the engine said last stands until our own reckoning drops it; but for what follows a hole."""
        exact = self._exact.pop(endpoint, None)
        if exact is None:
            return
        guesses = self._guesses[endpoint] = Guesses()
        for chain in exact.chains():
            guesses.use(chain)
        kept = dict.fromkeys(guesses.blocks())
        self._forget([block for block in exact.parents if block not in kept], endpoint)

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
        for number in numbers_in(mask):
            count = self.count(blocks, number)
            by_count[count] = by_count.get(count, 0) | 1 << number
        return sorted(((count, found) for count, found in by_count.items() if count), reverse=True)[:PREFIX_LEVELS]

    def _first_hole(self, blocks: tuple[int, ...], endpoint: int) -> int:
        holes = self._exact[endpoint].holes
        return next((index for index, block in enumerate(blocks) if block in holes), len(blocks))

    # Of blocks that follow each other in a prompt, those that no other endpoint has come last, as long as no engine
    # says for itself what it has: all of them are written and dropped at once, by the interpreter's own loop.

    def _remember_run(self, run: tuple[int, ...], endpoint: int) -> None:
        known = self._known_of_others(run, endpoint)
        self._remember(run[:known], endpoint)
        self._masks.update(zip(run[known:], repeat(1 << endpoint)))

    def _forget_run(self, run: tuple[int, ...], endpoint: int) -> None:
        known = self._known_of_others(run, endpoint)
        self._forget(list(run[:known]), endpoint)
        deque(map(self._masks.pop, run[known:]), maxlen=0)

    def _known_of_others(self, run: tuple[int, ...], endpoint: int) -> int:
        return len(run) if self._exact else self._leading(run, 0, len(run), ~(1 << endpoint))

    def _remember(self, blocks: tuple[int, ...], endpoint: int) -> None:
        masks, bit = self._masks, 1 << endpoint
        for block in blocks:
            masks[block] = masks.get(block, 0) | bit

    def _forget(self, blocks: list[int], endpoint: int) -> None:
        masks, bit = self._masks, 1 << endpoint
        for block in blocks:
            mask = masks.pop(block)
            if mask != bit:
                masks[block] = mask & ~bit


def numbers_in(mask: int) -> list[int]:
    """Of the endpoints whose bits are set, the least first."""
    numbers = []
    while mask:
        bit = mask & -mask
        numbers.append(bit.bit_length() - 1)
        mask ^= bit
    return numbers

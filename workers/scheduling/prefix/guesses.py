"""Blocks that an endpoint should have by what was sent there, the least recently used first to go."""

from collections import deque

LEAST_SWEPT_BLOCKS = 100_000


class Guesses:
    """Remembers for each block the last prompt that used it, and the prompts in order.

    A whole prompt is noted at the price of two bulk operations. What it used last goes from its end, as an engine
    evicts: so an endpoint that has a block has all blocks before it.
    """

    __slots__ = ("_evicting", "_has_holes", "_last_use", "_noted_blocks", "_prompts", "_uses")

    def __init__(self) -> None:
        self._last_use: dict[int, int] = {}
        self._uses = 0
        self._prompts: deque[tuple[int, tuple[int, ...]]] = deque()
        self._noted_blocks = 0
        self._evicting = 0
        self._has_holes = False

    def __len__(self) -> int:
        return len(self._last_use)

    def __contains__(self, block: object) -> bool:
        return block in self._last_use

    def blocks(self) -> list[int]:
        return list(self._last_use)

    def unknown(self, blocks: tuple[int, ...]) -> tuple[int, ...]:
        """Of a whole prompt: what follows the blocks that are there, and what the engine dropped among them."""
        last_use = self._last_use
        if self._has_holes:
            return tuple([block for block in blocks if block not in last_use])
        low, high = 0, len(blocks)
        while low < high:
            middle = (low + high) // 2
            if blocks[middle] in last_use:
                low = middle + 1
            else:
                high = middle
        return blocks[low:]

    def use(self, blocks: tuple[int, ...]) -> None:
        """All of these are there, and were used now, the first last."""
        self._uses += 1
        self._last_use.update(dict.fromkeys(blocks, self._uses))
        self._prompts.append((self._uses, blocks))
        self._noted_blocks += len(blocks)
        if self._noted_blocks > LEAST_SWEPT_BLOCKS + 4 * len(self._last_use):
            self._sweep()

    def drop(self, block: int) -> None:
        """The engine says that it is gone, whatever follows it."""
        if self._last_use.pop(block, None) is not None:
            self._has_holes = True

    def evict(self, keep: int) -> list[int]:
        """The least recently used, until so many are left."""
        evicted: list[int] = []
        last_use = self._last_use
        while len(last_use) > keep:
            number, blocks = self._prompts[0]
            if self._evicting == len(blocks):
                self._prompts.popleft()
                self._noted_blocks -= len(blocks)
                self._evicting = 0
                continue
            self._evicting += 1
            block = blocks[-self._evicting]
            if last_use.get(block) == number:
                del last_use[block]
                evicted.append(block)
        return evicted

    def _sweep(self) -> None:
        """Forgets of each prompt what another has used since."""
        last_use = self._last_use
        self._evicting = 0
        left = [
            (number, tuple([block for block in blocks if last_use.get(block) == number]))
            for number, blocks in self._prompts
        ]
        self._prompts = deque([entry for entry in left if entry[1]])
        self._noted_blocks = len(last_use)

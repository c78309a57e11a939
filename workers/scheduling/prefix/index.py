"""Which endpoint has which prefixes cached, as far as our own dispatches tell."""

from collections import OrderedDict

PREFIX_LEVELS = 3


class PrefixIndex:
    """Block → bit mask of endpoints, and per endpoint its blocks, least recently used first.

    An endpoint that has a block has all blocks before it: of one prompt the first block is always the most recently
    used. So the longest match is found by bisection.
    """

    def __init__(self) -> None:
        self._masks: dict[int, int] = {}
        self._blocks: dict[int, OrderedDict[int, None]] = {}

    def __len__(self) -> int:
        return len(self._masks)

    def match(self, blocks: tuple[int, ...]) -> list[tuple[int, int]]:
        """(count of leading blocks, mask of the endpoints that have them), longest first, at most PREFIX_LEVELS."""
        levels: list[tuple[int, int]] = []
        masks = self._masks
        missing = masks.get(blocks[0], 0) if blocks else 0
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
        while low < high:
            middle = (low + high + 1) // 2
            if masks.get(blocks[middle - 1], 0) & bit:
                low = middle
            else:
                high = middle - 1
        return low

    def record(self, blocks: tuple[int, ...], endpoint: int, max_blocks: int) -> None:
        """The endpoint will have these; it keeps at most `max_blocks`."""
        kept = self._blocks.setdefault(endpoint, OrderedDict())
        masks, bit = self._masks, 1 << endpoint
        for block in reversed(blocks):
            if block in kept:
                kept.move_to_end(block)
            else:
                masks[block] = masks.get(block, 0) | bit
                kept[block] = None
        while len(kept) > max_blocks:
            self._forget(kept.popitem(last=False)[0], endpoint)

    def forget_endpoint(self, endpoint: int) -> None:
        for block in self._blocks.pop(endpoint, ()):
            self._forget(block, endpoint)

    def _forget(self, block: int, endpoint: int) -> None:
        mask = self._masks[block] & ~(1 << endpoint)
        if mask:
            self._masks[block] = mask
        else:
            del self._masks[block]

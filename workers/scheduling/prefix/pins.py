"""Which blocks of an engine's cache are in use by what runs there now."""

from workers.scheduling.interface import Request


class Pins:
    """How many running requests of one endpoint have each block in their prompts.

    An engine counts references: what one running request holds, another with the same prompt shares, at no cost.
    """

    __slots__ = ("_holders",)

    def __init__(self) -> None:
        self._holders: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._holders)

    def add(self, blocks: tuple[int, ...]) -> None:
        holders = self._holders
        for block in blocks:
            holders[block] = holders.get(block, 0) + 1

    def remove(self, blocks: tuple[int, ...]) -> None:
        holders = self._holders
        for block in blocks:
            held = holders[block]
            if held == 1:
                del holders[block]
            else:
                holders[block] = held - 1

    def holders_of(self, block: int) -> int:
        return self._holders.get(block, 0)

    def held_tokens(self, request: Request) -> int:
        """Of its prompt; who holds a block holds those before it."""
        holders, blocks = self._holders, request.prefix_blocks
        low, high = 0, len(blocks) if holders else 0
        while low < high:
            middle = (low + high + 1) // 2
            if blocks[middle - 1] in holders:
                low = middle
            else:
                high = middle - 1
        return low * request.block_tokens

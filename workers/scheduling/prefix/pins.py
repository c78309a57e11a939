"""Which blocks of an engine's cache are in use by what runs there now."""

from workers.scheduling.interface import Request
from workers.scheduling.prefix.stems import StemTree

MOST_KNOWN = 1000


class Pins:
    """How many running requests of one endpoint have each block in their prompts.

    An engine counts references: what one running request holds, another with the same prompt shares, at no cost.
    """

    __slots__ = ("_held_tokens", "_tree")

    def __init__(self) -> None:
        self._held_tokens: dict[int, int] = {}
        self._tree = StemTree()

    def __len__(self) -> int:
        return sum(len(stem.blocks) for stem in self._tree.stems())

    def add(self, blocks: tuple[int, ...]) -> None:
        self._held_tokens.clear()
        for stem in self._tree.trace(blocks):
            stem.holders += 1

    def remove(self, blocks: tuple[int, ...]) -> None:
        """Of a prompt that was added."""
        self._held_tokens.clear()
        stem, done = self._tree.root, 0
        while done < len(blocks):
            stem = stem.branches[blocks[done]]
            stem.holders -= 1
            if not stem.holders:
                self._tree.remove(stem)
                return
            done = stem.end()

    def holders_of(self, blocks: tuple[int, ...]) -> int:
        """Of the last block of a prompt, or of the part of one."""
        stem, done = self._tree.root, 0
        while done < len(blocks):
            branch = stem.branches.get(blocks[done])
            if branch is None:
                return 0
            done = branch.common_end(blocks)
            if done < min(branch.end(), len(blocks)):
                return 0
            stem = branch
        return stem.holders

    def held_tokens(self, request: Request) -> int:
        """Of its prompt; who holds a block holds those before it. What waits asks again and again."""
        known = self._held_tokens
        tokens = known.get(request.request_id)
        if tokens is None:
            if len(known) >= MOST_KNOWN:
                known.clear()
            tokens = known[request.request_id] = self._find_held_tokens(request)
        return tokens

    def _find_held_tokens(self, request: Request) -> int:
        blocks, stem, done = request.prefix_blocks, self._tree.root, 0
        while done < len(blocks):
            branch = stem.branches.get(blocks[done])
            if branch is None:
                break
            done = branch.common_end(blocks)
            if done < branch.end():
                break
            stem = branch
        return done * request.block_tokens

"""Which blocks of an engine's cache are in use by what runs there now."""

from workers.scheduling.interface import Request
from workers.scheduling.prefix.stems import StemTree


class Pins:
    """How many running requests of one endpoint have each block in their prompts.

    An engine counts references: what one running request holds, another with the same prompt shares, at no cost.
    """

    __slots__ = ("_tree",)

    def __init__(self) -> None:
        self._tree = StemTree()

    def __len__(self) -> int:
        return sum(len(stem.blocks) for stem in self._tree.stems())

    def add(self, blocks: tuple[int, ...]) -> None:
        for stem in self._tree.trace(blocks):
            stem.holders += 1

    def remove(self, blocks: tuple[int, ...]) -> None:
        """Of a prompt that was added."""
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
        """Of its prompt; who holds a block holds those before it."""
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

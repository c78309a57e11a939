"""Which blocks of an engine's cache are in use by what runs there now."""

from workers.scheduling.interface import Request
from workers.scheduling.prefix.stems import StemTree

MOST_KNOWN = 1000


class Pins:
    """How many running requests of one endpoint have each block in their prompts.

    An engine counts references: what one running request holds, another with the same prompt shares, at no cost.
    """

    __slots__ = ("_held_tokens", "_known", "_tree")

    def __init__(self) -> None:
        self._held_tokens: dict[int, dict[int, int]] = {}
        self._known = 0
        self._tree = StemTree()

    def __len__(self) -> int:
        return sum(len(stem.blocks) for stem in self._tree.stems())

    def add(self, blocks: tuple[int, ...]) -> None:
        self._forget_like(blocks)
        for stem in self._tree.trace(blocks):
            stem.holders += 1

    def remove(self, blocks: tuple[int, ...]) -> None:
        """Of a prompt that was added."""
        self._forget_like(blocks)
        stem, done = self._tree.root, 0
        while done < len(blocks):
            stem = stem.branches[blocks[done]]
            stem.holders -= 1
            if not stem.holders:
                self._tree.remove(stem)
                return
            done = stem.end()

    def holders_of(self, blocks: tuple[int, ...], count: int) -> int:
        """Of the block that ends the first `count` of a prompt."""
        stem, done = self._tree.root, 0
        while done < count:
            branch = stem.branches.get(blocks[done])
            if branch is None:
                return 0
            done = branch.common_end(blocks)
            if done < min(branch.end(), count):
                return 0
            stem = branch
        return stem.holders

    def held_tokens(self, request: Request) -> int:
        """Of its prompt; who holds a block holds those before it. What waits asks again and again."""
        if not request.prefix_blocks:
            return 0
        known = self._held_tokens.get(request.prefix_blocks[0])
        tokens = None if known is None else known.get(request.request_id)
        if tokens is None:
            tokens = self._find_held_tokens(request)
            self._note(request, tokens)
        return tokens

    def _note(self, request: Request, tokens: int) -> None:
        if self._known >= MOST_KNOWN:
            self._held_tokens.clear()
            self._known = 0
        self._known += 1
        self._held_tokens.setdefault(request.prefix_blocks[0], {})[request.request_id] = tokens

    def _forget_like(self, blocks: tuple[int, ...]) -> None:
        """What prompts hold that begin as this one does may be another now."""
        known = self._held_tokens.pop(blocks[0], None) if blocks else None
        if known is not None:
            self._known -= len(known)

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

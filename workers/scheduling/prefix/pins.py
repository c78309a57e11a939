"""Which blocks of an engine's cache are in use by what runs there now."""

from workers.scheduling.interface import Request


class Stem:
    """Blocks `begin` to `end` of a prompt, held by `holders` running requests, all of them by each."""

    __slots__ = ("begin", "blocks", "branches", "end", "holders")

    def __init__(self, blocks: tuple[int, ...], begin: int, end: int, holders: int) -> None:
        self.blocks = blocks
        self.begin = begin
        self.end = end
        self.holders = holders
        self.branches: dict[int, Stem] = {}

    def common_end(self, blocks: tuple[int, ...]) -> int:
        """How far a prompt that has the first of these blocks has them; a block stands for all before it, too."""
        own = self.blocks
        high = min(self.end, len(blocks))
        if own[high - 1] == blocks[high - 1]:
            return high
        low = self.begin + 1
        while low < high:
            middle = (low + high + 1) // 2
            if own[middle - 1] == blocks[middle - 1]:
                low = middle
            else:
                high = middle - 1
        return low

    def split(self, at: int) -> None:
        rest = Stem(self.blocks, at, self.end, self.holders)
        rest.branches = self.branches
        self.branches = {self.blocks[at]: rest}
        self.end = at


class Pins:
    """How many running requests of one endpoint have each block in their prompts: a tree of their prompts.

    An engine counts references: what one running request holds, another with the same prompt shares, at no cost.
    """

    __slots__ = ("_roots",)

    def __init__(self) -> None:
        self._roots: dict[int, Stem] = {}

    def __len__(self) -> int:
        stems, count = list(self._roots.values()), 0
        while stems:
            stem = stems.pop()
            count += stem.end - stem.begin
            stems += stem.branches.values()
        return count

    def add(self, blocks: tuple[int, ...]) -> None:
        branches, done = self._roots, 0
        while done < len(blocks):
            stem = branches.get(blocks[done])
            if stem is None:
                branches[blocks[done]] = Stem(blocks, done, len(blocks), 1)
                return
            done = stem.common_end(blocks)
            if done < stem.end:
                stem.split(done)
            stem.holders += 1
            branches = stem.branches

    def remove(self, blocks: tuple[int, ...]) -> None:
        """Of a prompt that was added."""
        branches, done = self._roots, 0
        while done < len(blocks):
            stem = branches[blocks[done]]
            stem.holders -= 1
            if not stem.holders:
                del branches[blocks[done]]
                return
            branches, done = stem.branches, stem.end

    def holders_of(self, blocks: tuple[int, ...]) -> int:
        """Of the last block of a prompt, or of the part of one."""
        branches, done, holders = self._roots, 0, 0
        while done < len(blocks):
            stem = branches.get(blocks[done])
            if stem is None:
                return 0
            done = stem.common_end(blocks)
            if done < min(stem.end, len(blocks)):
                return 0
            branches, holders = stem.branches, stem.holders
        return holders

    def held_tokens(self, request: Request) -> int:
        """Of its prompt; who holds a block holds those before it."""
        blocks, branches, done = request.prefix_blocks, self._roots, 0
        while done < len(blocks):
            stem = branches.get(blocks[done])
            if stem is None:
                break
            done = stem.common_end(blocks)
            if done < stem.end:
                break
            branches = stem.branches
        return done * request.block_tokens

"""Prompts as a tree: what several of them begin with is there once."""


class Stem:
    """Blocks of a prompt from its block number `begin` on, below the stem that they continue.

    `holders` are running requests that have all of it, `uses` endpoints that do, with their last use of it, and `mask`
    the same endpoints as bits; of one that begins prompts `changed_at` is the last change of who has what of those.
    Each is for who wants it.
    """

    __slots__ = ("begin", "blocks", "branches", "changed_at", "holders", "mask", "parent", "uses")

    def __init__(self, blocks: tuple[int, ...], begin: int, parent: "Stem | None") -> None:
        self.blocks = blocks
        self.begin = begin
        self.parent = parent
        self.branches: dict[int, Stem] = {}
        self.holders = 0
        self.uses: dict[int, int] = {}
        self.mask = 0
        self.changed_at = 0

    def end(self) -> int:
        return self.begin + len(self.blocks)

    def common_end(self, prompt: tuple[int, ...]) -> int:
        """How far a prompt that has the first of these blocks has them; a block stands for all before it, too."""
        own, begin = self.blocks, self.begin
        high = min(len(own), len(prompt) - begin)
        if own[high - 1] == prompt[begin + high - 1]:
            return begin + high
        low = 1
        while low < high:
            middle = (low + high + 1) // 2
            if own[middle - 1] == prompt[begin + middle - 1]:
                low = middle
            else:
                high = middle - 1
        return begin + low


class StemTree:
    """Numbers of two prompts' blocks are equal where the prompts are, up to and including the block."""

    __slots__ = ("root",)

    def __init__(self) -> None:
        self.root = Stem((), 0, None)

    def trace(self, prompt: tuple[int, ...]) -> list[Stem]:
        """The stems that it is made of, first to last: made where there are none, parted where it goes apart."""
        stems: list[Stem] = []
        stem, done = self.root, 0
        while done < len(prompt):
            branch = stem.branches.get(prompt[done])
            if branch is None:
                branch = stem.branches[prompt[done]] = Stem(prompt[done:], done, stem)
            else:
                end = branch.common_end(prompt)
                if end < branch.end():
                    branch = self.part(branch, end - branch.begin)
            stem, done = branch, branch.end()
            stems.append(stem)
        return stems

    def part(self, stem: Stem, length: int) -> Stem:
        """Its beginning as a stem of its own; the stem itself is the rest, so who knows it by its end still does."""
        head = Stem(stem.blocks[:length], stem.begin, stem.parent)
        head.holders, head.uses, head.mask, head.changed_at = stem.holders, dict(stem.uses), stem.mask, stem.changed_at
        if stem.parent is not None:
            stem.parent.branches[stem.blocks[0]] = head
        stem.blocks, stem.begin, stem.parent = stem.blocks[length:], stem.begin + length, head
        head.branches[stem.blocks[0]] = stem
        return head

    def absorb(self, leaf: Stem) -> Stem:
        """What has grown at its end by a leaf is one stem, if one endpoint alone has both: that, or the leaf."""
        stem = leaf.parent
        if leaf.branches or len(leaf.uses) != 1 or stem is None or stem.uses != leaf.uses or len(stem.branches) > 1:
            return leaf
        stem.blocks += leaf.blocks
        stem.branches.clear()
        return stem

    def remove(self, stem: Stem) -> None:
        """With all that follows it."""
        if stem.parent is not None:
            del stem.parent.branches[stem.blocks[0]]

    def stems(self) -> list[Stem]:
        found = list(self.root.branches.values())
        for stem in found:
            found += stem.branches.values()
        return found

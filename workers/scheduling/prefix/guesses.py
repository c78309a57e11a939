"""Blocks that an endpoint should have by what was sent there, the least recently used first to go."""

from collections import OrderedDict

from workers.scheduling.prefix.stems import Stem, StemTree


class Guesses:
    """Prompts, in the order in which they were used last.

    What was used last goes from its end, as an engine evicts: so an endpoint that has a block has all blocks before it.
    A stem that another follows was used no earlier than that one. So it goes right after the last of them, if it was
    not used since, and else in the turn of the prompt that ended with it.
    """

    __slots__ = ("_blocks", "_last_stems", "_tree", "_uses")

    def __init__(self) -> None:
        self._tree = StemTree()
        self._last_stems: OrderedDict[Stem, int] = OrderedDict()
        self._blocks = 0
        self._uses = 0

    def __len__(self) -> int:
        return self._blocks

    def blocks(self) -> list[int]:
        return [block for stem in self._tree.stems() for block in stem.blocks]

    def use(self, blocks: tuple[int, ...]) -> tuple[int, ...]:
        """All of a prompt is there, and was used now. Returns what of it was not there before."""
        if not blocks:
            return ()
        self._uses += 1
        stems = self._tree.trace(blocks)
        last = stems[-1]
        known = len(blocks) if last.used else last.begin
        for stem in stems:
            stem.used = self._uses
        self._last_stems[last] = self._uses
        self._last_stems.move_to_end(last)
        self._blocks += len(blocks) - known
        return blocks[known:]

    def evict(self, keep: int) -> list[tuple[int, ...]]:
        """The least recently used, until so many are left: runs of blocks that follow each other."""
        evicted: list[tuple[int, ...]] = []
        while self._blocks > keep:
            stem, used = next(iter(self._last_stems.items()))
            if stem.used != used:
                del self._last_stems[stem]
            else:
                evicted.append(self._shorten(stem, self._blocks - keep))
        return evicted

    def _shorten(self, stem: Stem, blocks: int) -> tuple[int, ...]:
        """From its end. A prompt that ended with it ends with what it followed."""
        kept = max(0, len(stem.blocks) - blocks)
        gone = stem.blocks[kept:]
        self._blocks -= len(gone)
        if kept:
            stem.blocks = stem.blocks[:kept]
        else:
            self._remove(stem)
        return gone

    def _remove(self, stem: Stem) -> None:
        self._tree.remove(stem)
        del self._last_stems[stem]
        parent = stem.parent
        if parent is not None and parent.used == stem.used:
            self._last_stems[parent] = parent.used
            self._last_stems.move_to_end(parent, last=False)

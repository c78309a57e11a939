"""Blocks that endpoints should have by what was sent there, the least recently used first to go."""

from collections import OrderedDict

from workers.scheduling.prefix.levels import PREFIX_LEVELS, Level
from workers.scheduling.prefix.stems import Stem, StemTree


class UseOrder:
    """Of one endpoint: the ends of prompts in the order in which they were used last, and by which use."""

    __slots__ = ("blocks", "ends", "uses")

    def __init__(self) -> None:
        self.ends: OrderedDict[Stem, int] = OrderedDict()
        self.blocks = 0
        self.uses = 0


class Guesses:
    """The prompts of all endpoints in one tree, whose stems know who has all of them.

    What was used last goes from its end, as an engine evicts: so an endpoint that has a block has all blocks before it.
    A stem that another follows was used no earlier than that one. So it goes right after the last of them, if it was
    not used since, and else in the turn of the prompt that ended with it.
    """

    __slots__ = ("_orders", "_tree", "changes")

    def __init__(self) -> None:
        self.changes = 0
        self._tree = StemTree()
        self._orders: dict[int, UseOrder] = {}

    def __len__(self) -> int:
        """Blocks that any endpoint has."""
        return sum(len(stem.blocks) for stem in self._tree.stems())

    def blocks_of(self, endpoint: int) -> list[int]:
        return [block for stem in self._tree.stems() if endpoint in stem.uses for block in stem.blocks]

    def changes_like(self, blocks: tuple[int, ...]) -> int:
        """Grows with whatever may change what `match` finds: with prompts that begin as this one does."""
        begin = self._tree.root.branches.get(blocks[0])
        return self.changes if begin is None else begin.changed_at

    def match(self, blocks: tuple[int, ...]) -> list[Level]:
        """Longest first, at most PREFIX_LEVELS. Who has a stem has those before it: fewer and fewer on the way."""
        path: list[Level] = []
        stem, done = self._tree.root, 0
        while done < len(blocks):
            branch = stem.branches.get(blocks[done])
            if branch is None:
                break
            done = branch.common_end(blocks)
            path.append((done, branch.mask))
            if done < branch.end():
                break
            stem = branch
        return _levels_of(path)

    def count(self, blocks: tuple[int, ...], endpoint: int) -> int:
        """Leading blocks that this endpoint has."""
        stem, done = self._tree.root, 0
        while done < len(blocks):
            branch = stem.branches.get(blocks[done])
            if branch is None or endpoint not in branch.uses:
                break
            done = branch.common_end(blocks)
            if done < branch.end():
                break
            stem = branch
        return done

    def use(self, blocks: tuple[int, ...], endpoint: int) -> None:
        """All of a prompt is there, and was used now."""
        if not blocks:
            return
        order = self._orders.get(endpoint)
        if order is None:
            order = self._orders[endpoint] = UseOrder()
        order.uses += 1
        stems = self._tree.trace(blocks)
        for stem in stems:
            if endpoint not in stem.uses:
                stem.mask |= 1 << endpoint
                order.blocks += len(stem.blocks)
            stem.uses[endpoint] = order.uses
        self._note_change(stems[0])
        order.ends.pop(stems[-1], None)
        end = self._tree.absorb(stems[-1])
        order.ends[end] = order.uses
        order.ends.move_to_end(end)

    def evict(self, endpoint: int, keep: int) -> None:
        """The least recently used, until so many are left."""
        order = self._orders.get(endpoint)
        while order is not None and order.blocks > keep:
            stem, used = next(iter(order.ends.items()))
            if stem.uses.get(endpoint) != used:
                del order.ends[stem]
            else:
                self._shorten(stem, endpoint, order, order.blocks - keep)

    def forget_endpoint(self, endpoint: int) -> None:
        if self._orders.pop(endpoint, None) is not None:
            for stem in reversed(self._tree.stems()):
                if endpoint in stem.uses:
                    self._note_change(stem)
                    self._drop(stem, endpoint)

    def _shorten(self, stem: Stem, endpoint: int, order: UseOrder, blocks: int) -> None:
        """From its end, for this endpoint. A prompt that ended with it ends with what is left, or what it followed."""
        self._note_change(stem)
        kept = max(0, len(stem.blocks) - blocks)
        order.blocks -= len(stem.blocks) - kept
        if kept and len(stem.uses) == 1:
            stem.blocks = stem.blocks[:kept]
            return
        used = order.ends.pop(stem)
        rest = self._tree.part(stem, kept) if kept else stem.parent
        self._drop(stem, endpoint)
        if rest is not None and rest.uses.get(endpoint) == used:
            order.ends[rest] = used
            order.ends.move_to_end(rest, last=False)

    def _note_change(self, stem: Stem) -> None:
        self.changes += 1
        while stem.begin and stem.parent is not None:
            stem = stem.parent
        stem.changed_at = self.changes

    def _drop(self, stem: Stem, endpoint: int) -> None:
        stem.mask &= ~(1 << endpoint)
        del stem.uses[endpoint]
        if not stem.uses:
            self._tree.remove(stem)


def _levels_of(path: list[Level]) -> list[Level]:
    levels: list[Level] = []
    seen = 0
    for count, mask in reversed(path):
        if mask & ~seen:
            levels.append((count, mask & ~seen))
            if len(levels) == PREFIX_LEVELS:
                break
            seen = mask
    return levels

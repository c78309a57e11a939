"""A paged KV cache with prefix caching, as counts of blocks and a tree of cached runs."""

import heapq

BLOCK_TOKENS = 16


class Run:
    """Cached units that follow each other, below the run they continue. `pins` counts running sequences through it.

    The first `count` of its units are there: those behind them were evicted.
    """

    __slots__ = ("children", "count", "parent", "pins", "units", "used_at")

    def __init__(self, units: tuple[int, ...], parent: "Run | None") -> None:
        self.units = units
        self.count = len(units)
        self.parent = parent
        self.children: dict[int, Run] = {}
        self.pins = 0
        self.used_at = 0

    def __repr__(self) -> str:
        return f"Run({self.count} units, {self.pins} pins, {len(self.children)} children)"


class KVCache:
    """Blocks are private to a sequence, pinned (cached, in use), idle (cached, evictable) or empty.

    Prompts come as units of `unit_blocks` blocks each; a unit's number stands for everything up to and including it.
    The least recently used runs are evicted first, from their ends.
    """

    def __init__(self, total_blocks: int, unit_blocks: int) -> None:
        self.total = total_blocks
        self.unit_blocks = unit_blocks
        self.private = 0
        self.pinned = 0
        self._idle = 0
        self._root = Run((), None)
        self._leaves: list[tuple[int, int, Run]] = []
        self._clock = 0
        self._offers = 0

    @property
    def used(self) -> int:
        return self.private + self.pinned

    def match(self, units: tuple[int, ...], count: int) -> tuple[Run, int]:
        """The deepest cached run of a prompt's first `count` units and how many it covers.

        A run that matches in part is split. Equal units have equal ones before them, so one comparison tells of a run.
        """
        return self._match(self._root, units, 0, count)

    def _match(self, run: Run, units: tuple[int, ...], covered: int, count: int) -> tuple[Run, int]:
        while covered < count:
            child = run.children.get(units[covered])
            if child is None:
                break
            end = covered + child.count
            if end > count or units[end - 1] != child.units[child.count - 1]:
                child = self._split(child, _common(child, units, covered, count))
                return child, covered + child.count
            run, covered = child, end
        return run, covered

    def pin(self, run: Run) -> None:
        node: Run | None = run
        while node is not None:
            if node.pins == 0:
                blocks = node.count * self.unit_blocks
                self.pinned += blocks
                self._idle -= blocks
            node.pins += 1
            node = node.parent

    def unpin(self, run: Run) -> None:
        self._clock += 1
        node: Run | None = run
        while node is not None:
            node.pins -= 1
            node.used_at = self._clock
            if node.pins == 0:
                blocks = node.count * self.unit_blocks
                self.pinned -= blocks
                self._idle += blocks
                self._offer(node)
            node = node.parent

    def has_room(self, blocks: int) -> bool:
        """When idle ones are evicted."""
        return blocks <= self.total - self.private - self.pinned

    def take(self, blocks: int) -> bool:
        """Makes `blocks` more private, evicting idle ones where needed; all or nothing."""
        if not self.has_room(blocks):
            return False
        missing = blocks - (self.total - self.private - self.pinned - self._idle)
        if missing > 0:
            self._evict(missing)
        self.private += blocks
        return True

    def publish(self, below: Run, units: tuple[int, ...], first: int) -> Run:
        """Caches computed units, from `first` on, that follow `below`, which is pinned.

        Returns the run that is now pinned in its place. Copies of units that another sequence published meanwhile are
        given up for the cached ones.
        """
        run, covered = self._match(below, units, first, len(units))
        self.private -= (covered - first) * self.unit_blocks
        if covered < len(units):
            run = self._attach(run, units[covered:])
        if run is not below:
            self.pin(run)
            self.unpin(below)
        return run

    def _attach(self, parent: Run, units: tuple[int, ...]) -> Run:
        child = Run(units, parent)
        parent.children[units[0]] = child
        blocks = len(units) * self.unit_blocks
        self.private -= blocks
        self._idle += blocks
        return child

    def _split(self, child: Run, length: int) -> Run:
        head = Run(child.units[:length], child.parent)
        head.pins, head.used_at = child.pins, child.used_at
        head.children[child.units[length]] = child
        if child.parent is not None:
            child.parent.children[child.units[0]] = head
        child.units, child.count = child.units[length : child.count], child.count - length
        child.parent = head
        return head

    def _offer(self, run: Run) -> None:
        if run.pins == 0 and not run.children and run.parent is not None:
            self._offers += 1
            heapq.heappush(self._leaves, (run.used_at, self._offers, run))

    def _evict(self, blocks: int) -> None:
        while blocks > 0:
            used_at, _, run = heapq.heappop(self._leaves)
            if run.pins or run.children or run.used_at != used_at or run.parent is None:
                continue
            blocks -= self._trim(run, -(-blocks // self.unit_blocks))

    def _trim(self, run: Run, units: int) -> int:
        """Evicts up to `units` from the end of a leaf; returns the blocks that became empty."""
        gone = min(units, run.count)
        self._idle -= gone * self.unit_blocks
        if gone < run.count:
            run.count -= gone
            self._offer(run)
        elif run.parent is not None:
            parent, run.parent = run.parent, None
            del parent.children[run.units[0]]
            self._offer(parent)
        return gone * self.unit_blocks


def _common(run: Run, units: tuple[int, ...], start: int, count: int) -> int:
    """How many units of a run a prompt has from `start` on, before its unit number `count`; the first is one."""
    low, high = 1, min(run.count, count - start)
    while low < high:
        middle = (low + high + 1) // 2
        if run.units[middle - 1] == units[start + middle - 1]:
            low = middle
        else:
            high = middle - 1
    return low

"""For one shape, the node where a stage of it adds least.

Nodes stand in order of a price that none can be below, which costs little to know; only those that come up are looked
at, and stand by their true price from then on. So where no two nodes are alike, few of them are looked at, too.
"""

from collections.abc import Container
from heapq import heapify, heappop, heappush

from apps.placement.policies.board import Board, NodeState
from apps.placement.policies.demand import SPREAD, Shape
from apps.placement.policies.fitting import Fit, Fits
from apps.placement.policies.objective import Prices

# Price, how full, which: of two that are equal the lower number is first.
Rank = tuple[float, int, int]
# With how often the board had changed that node; None where nobody has looked yet.
_Entry = tuple[Rank, int, Fit | None]


class Cheapest:
    """Entries of nodes that have changed since are thrown away when they come up."""

    def __init__(self, board: Board, fits: Fits, shape: Shape, prices: Prices) -> None:
        self._board = board
        self._fits = fits
        self._shape = shape
        self._prices = prices
        self._seen = len(board.changes)
        self._heap = [entry for number in range(len(board.nodes)) if (entry := self._entry(number))]
        heapify(self._heap)

    def find(self, without: Container[int]) -> tuple[Rank, Fit] | None:
        """Among equals the emptier node where replicas spread, the fuller one where they are packed; then the name."""
        self._catch_up()
        aside: list[_Entry] = []
        found = None
        while self._heap and found is None:
            rank, version, fit = heappop(self._heap)
            number = rank[2]
            if version != self._board.versions[number]:
                continue
            if number in without:
                aside.append((rank, version, fit))
            elif fit is None:
                self._look(number)
            else:
                found = rank, fit
                aside.append((rank, version, fit))
        for entry in aside:
            heappush(self._heap, entry)
        return found

    def _look(self, number: int) -> None:
        fit = self._fits.stage(self._board.nodes[number], self._board.signature_of(number), self._shape)
        if fit is not None:
            rank = rank_of(self._board, number, fit.usd_per_h, self._shape)
            heappush(self._heap, (rank, self._board.versions[number], fit))

    def _catch_up(self) -> None:
        changes = self._board.changes
        for number in dict.fromkeys(changes[self._seen :]):
            entry = self._entry(number)
            if entry is not None:
                heappush(self._heap, entry)
        self._seen = len(changes)

    def _entry(self, number: int) -> _Entry | None:
        least = least_usd(self._board.nodes[number], self._shape, self._prices)
        if least is None:
            return None
        return rank_of(self._board, number, least, self._shape), self._board.versions[number], None


def least_usd(state: NodeState, shape: Shape, prices: Prices) -> float | None:
    """No stage costs less there; None where it is plain that none fits. What is in use may cost nothing more."""
    if shape.least_bytes and max(state.free, default=0) < shape.least_bytes:
        return None
    if shape.is_exclusive and state.users.count(0) < shape.tensor_parallel:
        return None
    may_share = not shape.is_exclusive and sum(state.users) > sum(state.held)
    return 0.0 if may_share else shape.tensor_parallel * state.least_usd_per_h * (1 - prices.unused_ratio)


def rank_of(board: Board, number: int, usd_per_h: float, shape: Shape) -> Rank:
    crowd = sum(board.nodes[number].deployments.values())
    return round(usd_per_h, 9), crowd if shape.strategy == SPREAD else -crowd, number

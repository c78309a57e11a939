"""Plans many replicas at once: the hardest first, each where it adds least to the plan's cost, then improved.

Nodes that are alike are looked at once, and for each shape nodes stand in the order of what it would cost there, so
that a replica's place is found without a look at them all (cheapest.py).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from random import Random

from apps.placement.policies.board import Board
from apps.placement.policies.cheapest import Cheapest, Rank, rank_of
from apps.placement.policies.demand import SPREAD, Assignment, Demand, Plan, Shape, Stage
from apps.placement.policies.fitting import Fit, Fits, fit_stage
from apps.placement.policies.fleet import NodeView
from apps.placement.policies.improving import Placed, improved
from apps.placement.policies.objective import PRICES, Prices
from apps.placement.policies.pipelines import fit_pipeline
from apps.placement.policies.pricing import base_usd, own_usd, price_of_place

# What it is ranked by, its price, and the accelerators.
Best = tuple[Rank, float, tuple[int, ...]]


def make_plan(
    nodes: Sequence[NodeView],
    demands: Sequence[Demand],
    *,
    rounds: int = 0,
    random: Random | None = None,
    prices: Prices = PRICES,
) -> Plan:
    """Places what can be placed; what runs already stays where it is. `rounds` of improvement draw from `random`."""
    planner = Planner(Board(nodes, [demand.shape for demand in demands]), prices)
    placed = _first_plan(planner, demands)
    if rounds and random is not None:
        placed = improved(planner, list(demands), placed, rounds=rounds, random=random)
        placed = _priced_again(nodes, demands, placed, prices)
    assignments = [found for demand in demands if (found := placed[demand.replica_id])]
    unplaced = [demand for demand in demands if placed[demand.replica_id] is None]
    cost = sum(each.usd_per_h for each in assignments) + sum(planner.unplaced_usd(each) for each in unplaced)
    return Plan(assignments=assignments, unplaced=unplaced, cost_usd_per_h=cost)


def _first_plan(planner: "Planner", demands: Sequence[Demand]) -> Placed:
    """What found no place finds none later, for the board only fills up; nor does another replica like it."""
    placed: Placed = {}
    hopeless: set[tuple[object, ...]] = set()
    for demand in sorted(demands, key=hardness):
        alike = demand.shape, demand.deployment_id, demand.avoids, demand.weights_key, demand.weights_bytes
        placed[demand.replica_id] = None if alike in hopeless else planner.place(demand)
        if placed[demand.replica_id] is None:
            hopeless.add(alike)
    return placed


def _priced_again(nodes: Sequence[NodeView], demands: Sequence[Demand], placed: Placed, prices: Prices) -> Placed:
    """In the order they were asked for, so that the parts add up to the whole again after replicas have moved."""
    planner = Planner(Board(nodes, [demand.shape for demand in demands]), prices)
    priced: Placed = {}
    for demand in demands:
        found = placed[demand.replica_id]
        if found:
            found = replace(found, usd_per_h=planner.price_of(demand, found.stages))
            planner.board.put(found)
        priced[demand.replica_id] = found
    return priced


def hardness(demand: Demand) -> tuple[object, ...]:
    """Those that fit in the fewest places go first; ids make the order the same each time."""
    shape = demand.shape
    freedom = (not shape.models) + (not shape.labels) + (not shape.apart)
    largest = -(shape.memory_share or 0.0), -(shape.memory_bytes or 0)
    return -shape.accelerator_count, not shape.is_exclusive, freedom, *largest, demand.deployment_id, demand.replica_id


class Planner:
    """Puts replicas on a board, one at a time."""

    def __init__(self, board: Board, prices: Prices = PRICES) -> None:
        self.board = board
        self._prices = prices
        self._fits = Fits(prices)
        self._cheapest: dict[Shape, Cheapest] = {}

    def unplaced_usd(self, demand: Demand) -> float:
        return self._prices.unplaced_usd * demand.shape.accelerator_count

    def place(self, demand: Demand, *, instead_of: Iterable[int] = ()) -> Assignment | None:
        """`instead_of` are numbers of nodes that it should not go to this time."""
        assignment = self.find(demand, instead_of=instead_of)
        if assignment is not None:
            self.board.put(assignment)
        return assignment

    def find(self, demand: Demand, *, instead_of: Iterable[int] = ()) -> Assignment | None:
        barred = self.board.barred(demand) | frozenset(instead_of)
        if demand.shape.pipeline_parallel > 1:
            closed = self.board.closed_to(demand, barred=barred)
            stages = fit_pipeline(self.board, demand, closed, self._fits, self._prices)
        else:
            stages = self._best_stage(demand, barred)
        if not stages:
            return None
        return Assignment(demand=demand, stages=stages, usd_per_h=self.price_of(demand, stages))

    def price_of(self, demand: Demand, stages: tuple[Stage, ...]) -> float:
        return price_of_place(self.board, demand, stages, self._prices)

    def _best_stage(self, demand: Demand, barred: frozenset[int]) -> tuple[Stage, ...]:
        """The cheapest node of all, or one that is special to this replica."""
        special = self._special(demand)
        base = base_usd(demand, self._prices)
        found = self._cheapest_for(demand.shape).find(self.board.closed_to(demand, barred=barred.union(special)))
        best: Best | None = None
        if found is not None:
            best = self._better(None, found[0][2], found[1], found[1].usd_per_h + base, demand.shape)
        closed = self.board.closed_to(demand, barred=barred)
        for number in special:
            if number not in closed:
                best = self._better_special(best, number, demand, base)
        return () if best is None else (self.board.stage(best[0][2], best[2]),)

    def _cheapest_for(self, shape: Shape) -> Cheapest:
        known = self._cheapest.get(shape)
        if known is None:
            known = self._cheapest[shape] = Cheapest(self.board, self._fits, shape, self._prices)
        return known

    def _better(self, best: Best | None, number: int, fit: Fit, usd_per_h: float, shape: Shape) -> Best:
        rank = rank_of(self.board, number, usd_per_h, shape)
        if best is not None and best[0] <= rank:
            return best
        return rank, usd_per_h, fit.indexes

    def _better_special(self, best: Best | None, number: int, demand: Demand, base: float) -> Best | None:
        state, shape = self.board.nodes[number], demand.shape
        usd = base + own_usd(self.board, number, demand, self._prices)
        fit = self._fits.stage(state, self.board.signature_of(number), shape)
        if fit is not None:
            best = self._better(best, number, fit, fit.usd_per_h + usd, shape)
        for engine in state.view.sleeping:
            if engine.weights_key == demand.weights_key and all(key in state.positions for key in engine.keys):
                there = [state.positions[key] for key in engine.keys]
                doing = self._fits.eligible(state, shape)
                woken = fit_stage(state, [each for each in there if each in doing], shape, self._prices)
                if woken is not None:
                    best = self._better(best, number, woken, woken.usd_per_h + usd - self._prices.start_usd, shape)
        return best

    def _special(self, demand: Demand) -> dict[int, None]:
        beside = self.board.hosts_of(demand.deployment_id) if demand.shape.strategy == SPREAD else []
        return dict.fromkeys([*beside, *self.board.with_weights(demand.weights_key)])

"""Moves of running replicas that would make the fleet cheaper or make room, with what each costs. Only a proposal."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, replace
from random import Random
from uuid import UUID

from apps.placement.policies.board import Board
from apps.placement.policies.demand import Assignment, Demand, Stage
from apps.placement.policies.fleet import NodeView
from apps.placement.policies.improving import Placed, improved
from apps.placement.policies.objective import PRICES, Prices
from apps.placement.policies.planning import Planner
from apps.placement.policies.reasons import is_usable

# What a move must save each hour to be proposed: it drains an engine, loads weights, and warms up.
MOVE_USD = 1.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Running:
    """A replica that may be moved, and where it is."""

    demand: Demand
    stages: tuple[Stage, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Move:
    """`fetch_bytes` must be loaded onto the new node first; 0 where its weights are there already."""

    replica_id: UUID
    deployment_id: UUID
    before: tuple[Stage, ...]
    after: tuple[Stage, ...]
    fetch_bytes: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Repacking:
    """What the moves save each hour beyond MOVE_USD each, and how many accelerators are in use before and after."""

    moves: tuple[Move, ...]
    saved_usd_per_h: float
    used_before: int
    used_after: int


class _Staying(Planner):
    """A planner to which a replica's own place is dearest: any other costs MOVE_USD more."""

    def __init__(self, board: Board, prices: Prices, homes: dict[UUID, tuple[Stage, ...]]) -> None:
        super().__init__(board, prices)
        self._homes = homes

    def price_of(self, demand: Demand, stages: tuple[Stage, ...]) -> float:
        is_home = stages == self._homes[demand.replica_id]
        return super().price_of(demand, stages) + (0.0 if is_home else MOVE_USD)

    def find(self, demand: Demand, *, instead_of: Iterable[int] = ()) -> Assignment | None:
        avoided = list(instead_of)
        found = super().find(demand, instead_of=avoided)
        home = self._homes[demand.replica_id]
        if any(self.board.numbers[stage.node_id] in avoided for stage in home) or not self._may_stay(demand, home):
            return found
        usd_per_h = self.price_of(demand, home)
        if found is not None and found.usd_per_h < usd_per_h:
            return found
        return Assignment(demand=demand, stages=home, usd_per_h=usd_per_h)

    def _may_stay(self, demand: Demand, home: tuple[Stage, ...]) -> bool:
        """Somebody else may have been put there, or beside it, while it was off the board."""
        barred = self.board.barred(demand)
        if any(self.board.numbers[stage.node_id] in barred for stage in home):
            return False
        states = [(self.board.nodes[self.board.numbers[stage.node_id]], stage) for stage in home]
        return all(
            is_usable(state, state.positions[key], demand.shape) for state, stage in states for key in stage.keys
        )


def propose_moves(
    nodes: Sequence[NodeView], running: Sequence[Running], *, rounds: int, random: Random, prices: Prices = PRICES
) -> Repacking:
    """`nodes` list everybody as occupants; who is not in `running` stays where it is."""
    homes = {each.demand.replica_id: each.stages for each in running}
    bare = [_without(node, homes) for node in nodes]
    demands = [each.demand for each in running]
    planner, before_usd, placed = _at_home(bare, running, homes, prices)
    found = improved(planner, demands, placed, rounds=rounds, random=random)
    moved = [Running(demand=each.demand, stages=_stages(found, each)) for each in running]
    _, after_usd, _ = _at_home(bare, moved, homes, prices)
    moves = [_move(old, new, nodes) for old, new in zip(running, moved, strict=True) if old.stages != new.stages]
    return Repacking(
        moves=tuple(moves),
        saved_usd_per_h=before_usd - after_usd,
        used_before=_used(running),
        used_after=_used(moved),
    )


def _without(node: NodeView, movable: Container[UUID]) -> NodeView:
    return replace(node, occupants=tuple(each for each in node.occupants if each.replica_id not in movable))


def _at_home(
    bare: Sequence[NodeView], running: Sequence[Running], homes: dict[UUID, tuple[Stage, ...]], prices: Prices
) -> tuple[Planner, float, Placed]:
    """A board with everybody on it, and what that costs."""
    planner = _Staying(Board(bare, [each.demand.shape for each in running]), prices, homes)
    placed: Placed = {}
    for each in running:
        usd = planner.price_of(each.demand, each.stages)
        assignment = Assignment(demand=each.demand, stages=each.stages, usd_per_h=usd)
        placed[each.demand.replica_id] = assignment
        planner.board.put(assignment)
    return planner, sum(each.usd_per_h for each in placed.values() if each), placed


def _stages(found: Placed, running: Running) -> tuple[Stage, ...]:
    assignment = found[running.demand.replica_id]
    return assignment.stages if assignment else running.stages


def _move(old: Running, new: Running, nodes: Sequence[NodeView]) -> Move:
    demand = old.demand
    target = next(node for node in nodes if node.node_id == new.stages[0].node_id)
    return Move(
        replica_id=demand.replica_id,
        deployment_id=demand.deployment_id,
        before=old.stages,
        after=new.stages,
        fetch_bytes=0 if demand.weights_key in target.cached else demand.weights_bytes,
    )


def _used(running: Sequence[Running]) -> int:
    return len({(stage.node_id, key) for each in running for stage in each.stages for key in stage.keys})

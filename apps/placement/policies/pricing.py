"""What a given place adds to the cost of a plan, by the terms of objective.py."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from apps.placement.policies.board import Board, NodeState
from apps.placement.policies.demand import SPREAD, Demand, Shape, Stage, nodes_of
from apps.placement.policies.objective import GIB, Prices


def price_of_group(state: NodeState, group: Sequence[int], prices: Prices) -> float:
    """Of taking these accelerators of a node for one stage."""
    accelerators = state.view.accelerators
    opened = [index for index in group if not state.users[index]]
    cost = sum(accelerators[index].usd_per_h for index in opened)
    if opened and not any(state.users):
        cost += prices.node_ratio * sum(each.usd_per_h for each in accelerators)
    return cost + prices.unused_ratio * _unused_change(state, opened) + _links_usd(state, group, prices)


def price_of_place(board: Board, demand: Demand, stages: tuple[Stage, ...], prices: Prices) -> float:
    """The board is used as a notepad and left as it was. The sum over a plan's replicas is the plan's."""
    taken: list[tuple[NodeState, list[int]]] = []
    touched = [board.numbers[node_id] for node_id in nodes_of(stages)]
    cost = base_usd(demand, prices) + sum(beside_usd(board, number, demand, prices) for number in touched)
    cost -= cached_usd(board, touched[0], demand, prices)
    for stage in stages:
        state = board.nodes[board.numbers[stage.node_id]]
        indexes = [state.positions[key] for key in stage.keys]
        cost += price_of_group(state, indexes, prices)
        occupy(state, demand.shape, indexes, 1)
        taken.append((state, indexes))
    for state, indexes in taken:
        occupy(state, demand.shape, indexes, -1)
    return cost - wake_usd(board, demand, stages, prices) + _hops_usd(board, stages, prices)


def occupy(state: NodeState, shape: Shape, indexes: Sequence[int], sign: int) -> None:
    each = shape.reserved_bytes(state.view.accelerators[indexes[0]])
    state.occupy(indexes, each, is_exclusive=shape.is_exclusive, sign=sign)


def base_usd(demand: Demand, prices: Prices) -> float:
    """On a node that has neither the weights nor anything else of this replica's."""
    return prices.start_usd + prices.fetch_usd_per_gib * demand.weights_bytes / GIB


def own_usd(board: Board, number: int, demand: Demand, prices: Prices) -> float:
    """What a node adds to that because of what it has of this replica's deployment."""
    return beside_usd(board, number, demand, prices) - cached_usd(board, number, demand, prices)


def beside_usd(board: Board, number: int, demand: Demand, prices: Prices) -> float:
    if demand.shape.strategy != SPREAD:
        return 0.0
    return prices.side_by_side_usd * board.count_beside(number, demand.deployment_id)


def cached_usd(board: Board, number: int, demand: Demand, prices: Prices) -> float:
    """Saved where the weights are on the node's disk."""
    if not demand.weights_key or demand.weights_key not in board.nodes[number].view.cached:
        return 0.0
    return prices.fetch_usd_per_gib * demand.weights_bytes / GIB


def wake_usd(board: Board, demand: Demand, stages: tuple[Stage, ...], prices: Prices) -> float:
    if len(stages) != 1 or not demand.weights_key:
        return 0.0
    engines = board.nodes[board.numbers[stages[0].node_id]].view.sleeping
    keys = sorted(stages[0].keys)
    is_asleep = any(each.weights_key == demand.weights_key and sorted(each.keys) == keys for each in engines)
    return prices.start_usd if is_asleep else 0.0


def used_islands(state: NodeState) -> dict[int | None, None]:
    return {each.island: None for each, users in zip(state.view.accelerators, state.users, strict=True) if users}


def _hops_usd(board: Board, stages: tuple[Stage, ...], prices: Prices) -> float:
    cost = 0.0
    for before, stage in pairwise(stages):
        if before.node_id != stage.node_id:
            state = board.nodes[board.numbers[stage.node_id]]
            cost += sum(state.view.accelerators[state.positions[key]].usd_per_h for key in stage.keys)
    return prices.hop_ratio * cost


def _unused_change(state: NodeState, opened: Iterable[int]) -> float:
    """By how much the price of what lies unused in used islands grows (or shrinks)."""
    accelerators, used = state.view.accelerators, used_islands(state)
    change = 0.0
    newly_used: dict[int, None] = {}
    for index in opened:
        island = accelerators[index].island
        if island is not None:
            change -= accelerators[index].usd_per_h
            if island not in used:
                newly_used[island] = None
    return change + sum(each.usd_per_h for each in accelerators if each.island in newly_used)


def _links_usd(state: NodeState, group: Sequence[int], prices: Prices) -> float:
    if len(group) == 1:
        return 0.0
    members = [state.view.accelerators[index] for index in group]
    price = sum(each.usd_per_h for each in members)
    is_one_island = members[0].island is not None and all(each.island == members[0].island for each in members)
    is_one_numa = all(each.numa == members[0].numa for each in members)
    return price * ((0.0 if is_one_island else prices.pcie_ratio) + (0.0 if is_one_numa else prices.numa_ratio))

"""Makes a plan cheaper: takes a few replicas off and puts them back in another order, and keeps what is no worse."""

from collections.abc import Sequence
from random import Random
from typing import NamedTuple, Protocol
from uuid import UUID

from apps.placement.policies.board import Board
from apps.placement.policies.demand import Assignment, Demand, Stage

Placed = dict[UUID, Assignment | None]
_MOST_TAKEN_OFF = 4
_MOST_CLEARED = 8
_CLEARING_SHARE = 0.3
_DETOUR_SHARE = 0.3
_TOLERANCE_USD = 1e-9
_LARGEST_LOSS_USD = 5.0


class _Cleared(NamedTuple):
    """Accelerators of one node that the replicas on them shall try to do without, and what that may cost."""

    number: int
    indexes: Sequence[int]
    loss_usd: float


class Places(Protocol):
    """What is needed of the planner."""

    board: Board

    def place(self, demand: Demand, *, instead_of: Sequence[int] = ()) -> Assignment | None: ...

    def price_of(self, demand: Demand, stages: tuple[Stage, ...]) -> float: ...

    def unplaced_usd(self, demand: Demand) -> float: ...


def improved(places: Places, demands: Sequence[Demand], placed: Placed, *, rounds: int, random: Random) -> Placed:
    """Never dearer than `placed`. Early rounds may make it a little dearer, to get out of dead ends."""
    if not demands:
        return placed
    best, change_usd = placed, 0.0
    for number in range(rounds):
        loss_usd = _LARGEST_LOSS_USD * random.random() * (1 - number / rounds)
        placed, gained_usd = _one_round(places, demands, placed, loss_usd, random)
        change_usd -= gained_usd
        if change_usd < -_TOLERANCE_USD:
            best, change_usd = placed, 0.0
    return best


def _one_round(
    places: Places, demands: Sequence[Demand], placed: Placed, loss_usd: float, random: Random
) -> tuple[Placed, float]:
    number, cleared = _some_accelerators(places.board, random)
    if random.random() < _CLEARING_SHARE:
        chosen = _on(places.board, demands, placed, number, cleared)
    else:
        chosen, cleared = random.sample(demands, random.randint(1, min(_MOST_TAKEN_OFF, len(demands)))), []
    chosen = _with_waiting(chosen, demands, placed, random)
    return _try(places, placed, chosen, _Cleared(number, cleared, loss_usd), random)


def _some_accelerators(board: Board, random: Random) -> tuple[int, list[int]]:
    number = random.randrange(len(board.nodes))
    count = len(board.nodes[number].free)
    return number, random.sample(range(count), random.randint(min(1, count), count))


def _on(board: Board, demands: Sequence[Demand], placed: Placed, number: int, indexes: Sequence[int]) -> list[Demand]:
    """Together they can leave for a cheaper place, which none of them gains from alone."""
    view = board.nodes[number].view
    keys = {view.accelerators[index].key for index in indexes}
    there = [d for d in demands if (held := placed[d.replica_id]) and _touches(held, view.node_id, keys)]
    return there[:_MOST_CLEARED]


def _touches(held: Assignment, node_id: UUID, keys: set[str]) -> bool:
    return any(stage.node_id == node_id and not keys.isdisjoint(stage.keys) for stage in held.stages)


def _with_waiting(chosen: Sequence[Demand], demands: Sequence[Demand], placed: Placed, random: Random) -> list[Demand]:
    """Every other time one that has no place, where there is any: room for it is worth most."""
    ordered = random.sample(chosen, len(chosen))
    waiting = [demand for demand in demands if placed[demand.replica_id] is None and demand not in chosen]
    if waiting and random.random() < 0.5:  # noqa: PLR2004 - a fair coin
        ordered.insert(0, random.choice(waiting))
    return ordered


def _try(
    places: Places, placed: Placed, chosen: Sequence[Demand], cleared: _Cleared, random: Random
) -> tuple[Placed, float]:
    """What is kept, and how much cheaper that is."""
    before = {demand.replica_id: placed[demand.replica_id] for demand in chosen}
    _take_off(places, before)
    saved = _put_back(places, chosen, before)
    _take_off(places, before)
    after = _place_elsewhere(places, chosen, before, cleared, random)
    _take_off(places, after)
    spent = _put_back(places, chosen, after)
    if spent <= saved + max(cleared.loss_usd, _TOLERANCE_USD):
        return placed | after, saved - spent
    _take_off(places, after)
    _put_back(places, chosen, before)
    return placed, 0.0


def _place_elsewhere(
    places: Places, chosen: Sequence[Demand], before: Placed, cleared: _Cleared, random: Random
) -> Placed:
    """First without what was cleared; who finds nothing then may go back there."""
    places.board.block(cleared.number, cleared.indexes)
    after = {each.replica_id: _place_anew(places, each, before[each.replica_id], random) for each in chosen}
    places.board.block(cleared.number, cleared.indexes, sign=-1)
    return {each.replica_id: after[each.replica_id] or places.place(each) for each in chosen}


def _take_off(places: Places, held: Placed) -> None:
    for assignment in held.values():
        if assignment:
            places.board.put(assignment, sign=-1)


def _put_back(places: Places, chosen: Sequence[Demand], held: Placed) -> float:
    """What they cost where they are, by what they add now."""
    cost = 0.0
    for demand in chosen:
        assignment = held[demand.replica_id]
        cost += places.price_of(demand, assignment.stages) if assignment else places.unplaced_usd(demand)
        if assignment:
            places.board.put(assignment)
    return cost


def _place_anew(places: Places, demand: Demand, held: Assignment | None, random: Random) -> Assignment | None:
    avoided = _avoided(places, held, random)
    found = places.place(demand, instead_of=avoided) or (places.place(demand) if avoided else None)
    return _beside(places, found, random) if found and random.random() < _DETOUR_SHARE else found


def _beside(places: Places, found: Assignment, random: Random) -> Assignment:
    """The next best place without one of its accelerators, if there is any: another may need just that one."""
    stage = random.choice(found.stages)
    number = places.board.numbers[stage.node_id]
    spared = [places.board.nodes[number].positions[random.choice(stage.keys)]]
    places.board.put(found, sign=-1)
    places.board.block(number, spared)
    other = places.place(found.demand)
    places.board.block(number, spared, sign=-1)
    if other is None:
        places.board.put(found)
    return other or found


def _avoided(places: Places, held: Assignment | None, random: Random) -> list[int]:
    """Now and then not the cheapest node, nor the one before: what follows may gain more than this loses."""
    if random.random() >= _DETOUR_SHARE:
        return []
    others = [random.randrange(len(places.board.nodes))]
    return others if held is None else [*others, places.board.numbers[held.node_id]]

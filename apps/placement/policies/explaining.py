"""Why a replica has no place: every node, and on each every accelerator, in numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from apps.placement.policies.board import Board, NodeState
from apps.placement.policies.demand import Assignment, Demand, Shape, Stage
from apps.placement.policies.disk import coming_with
from apps.placement.policies.fitting import alike, fit_stages
from apps.placement.policies.fleet import AcceleratorView, NodeView, Occupant
from apps.placement.policies.objective import PRICES
from apps.placement.policies.reasons import reason_against, reason_against_node

_LONGEST_TEXT = 1800


@dataclass(frozen=True, kw_only=True, slots=True)
class Refusal:
    """`key` is the accelerator's, or "" where the whole node does not do."""

    node_id: UUID
    node_name: str
    key: str
    reason: str

    def __str__(self) -> str:
        return f"{self.node_name}{f' {self.key}' if self.key else ''}: {self.reason}"


def explain(nodes: Sequence[NodeView], demand: Demand) -> list[Refusal]:
    """Of the fleet as it is; an accelerator that would do is not listed, but its node is when they are too few."""
    board = Board(nodes, [demand.shape])
    by_others, by_its_own = board.barred_by_others(demand), board.barred_by_its_own(demand)
    refusals: list[Refusal] = []
    for number, state in enumerate(board.nodes):
        reason = reason_against_node(state.view, demand.shape)
        if number in by_others:
            reason = reason or "has a replica that must not share a node with this one"
        elif number in by_its_own:
            reason = reason or _beside_its_own(demand.shape.apart)
        refusals += [_refusal(state, "", reason)] if reason else _of_parts(board, number, demand)
    return refusals


def as_if_applied(nodes: Sequence[NodeView], assignments: Sequence[Assignment]) -> list[NodeView]:
    """The fleet once a plan's replicas are in their places: what stands in the way of those that got none."""
    taken: dict[UUID, list[tuple[Demand, Occupant]]] = {}
    accelerators = {(node.node_id, each.key): each for node in nodes for each in node.accelerators}
    for assignment in assignments:
        for stage in assignment.stages:
            occupant = _occupant(assignment, stage, accelerators[stage.node_id, stage.keys[0]])
            taken.setdefault(stage.node_id, []).append((assignment.demand, occupant))
    return [_with(node, taken.get(node.node_id, [])) for node in nodes]


def _with(node: NodeView, taken: Sequence[tuple[Demand, Occupant]]) -> NodeView:
    for demand, occupant in taken:
        coming = coming_with(node, demand)
        node = replace(node, occupants=(*node.occupants, occupant), coming=coming)
    return node


def _occupant(assignment: Assignment, stage: Stage, first: AcceleratorView) -> Occupant:
    demand = assignment.demand
    return Occupant(
        replica_id=demand.replica_id,
        deployment_id=demand.deployment_id,
        keys=stage.keys,
        bytes_each=demand.shape.reserved_bytes(first),
        is_exclusive=demand.shape.is_exclusive,
        avoids=demand.avoids,
    )


def in_words(refusals: Sequence[Refusal]) -> str:
    """For a page's line: as many as there is room for, and how many more."""
    text = ""
    for number, refusal in enumerate(refusals):
        addition = f"{'; ' if text else ''}{refusal}"
        if len(text) + len(addition) > _LONGEST_TEXT:
            return f"{text}; and {len(refusals) - number} more"
        text += addition
    return text or "no node has joined"


def _beside_its_own(domain: str) -> str:
    return f"another replica of this deployment is {'here' if domain == 'node' else f'in the same {domain}'}"


def _of_parts(board: Board, number: int, demand: Demand) -> list[Refusal]:
    """Its disk and its accelerators: both are told, for either may be what can be helped."""
    state, of_disk = board.nodes[number], board.disks.reason_against(number, demand)
    refusals = [_refusal(state, "", of_disk)] if of_disk else []
    return [*refusals, *_of_accelerators(state, demand.shape)]


def _of_accelerators(state: NodeState, shape: Shape) -> list[Refusal]:
    accelerators = state.view.accelerators
    reasons = [reason_against(state, index, shape) for index in range(len(accelerators))]
    refused = [
        _refusal(state, each.key, reason)
        for each, reason in zip(accelerators, reasons, strict=True)
        if reason and each.kind == shape.on
    ]
    fit_count = reasons.count("")
    if fit_count < shape.tensor_parallel:
        return [*refused, _refusal(state, "", f"{fit_count} of the {shape.tensor_parallel} {shape.on}s needed do")]
    return [*refused, *_of_links(state, shape, reasons)]


def _of_links(state: NodeState, shape: Shape, reasons: Sequence[str]) -> list[Refusal]:
    """Enough of them do, one by one."""
    doing = [index for index, why in enumerate(reasons) if not why]
    most = max(map(len, alike(state.view, doing)))
    if most < shape.tensor_parallel:
        return [_refusal(state, "", f"the most of one model that do are {most} of the {shape.tensor_parallel} needed")]
    if shape.needs_nvlink and shape.tensor_parallel > 1:
        islands = [each.island for each, why in zip(state.view.accelerators, reasons, strict=True) if not why]
        largest = max((islands.count(island) for island in islands if island is not None), default=0)
        if largest < shape.tensor_parallel:
            return [_refusal(state, "", f"the most that do on one NVLink island are {largest}")]
    return _of_stages(state, shape, doing)


def _of_stages(state: NodeState, shape: Shape, doing: Sequence[int]) -> list[Refusal]:
    accelerators = state.view.accelerators
    by_model = [[index for index in doing if accelerators[index].model == model] for model in _models_of(state, doing)]
    taken = max(len(fit_stages(state, indexes, shape, PRICES)) for indexes in by_model)
    if taken >= shape.pipeline_parallel:
        return []
    alone = _alone(state, shape)
    return [_refusal(state, "", f"takes {taken} of the {shape.pipeline_parallel} pipeline stages{alone}")]


def _alone(state: NodeState, shape: Shape) -> str:
    """Why other nodes do not take the rest."""
    if not shape.may_span:
        return ", and all are to be on one node"
    return "" if state.view.is_reachable else ", and has no address at which other nodes' parts would meet it"


def _models_of(state: NodeState, indexes: Sequence[int]) -> list[str]:
    return list(dict.fromkeys(state.view.accelerators[index].model for index in indexes))


def _refusal(state: NodeState, key: str, reason: str) -> Refusal:
    return Refusal(node_id=state.view.node_id, node_name=state.view.name, key=key, reason=reason)

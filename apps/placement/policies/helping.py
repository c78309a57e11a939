"""What could be done to the fleet so that a replica fits: nodes opened, memory and disks freed, replicas moved."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from uuid import UUID

from apps.placement.policies.demand import Demand, Shape
from apps.placement.policies.disk import Disks
from apps.placement.policies.fleet import GPU, ONLINE, AcceleratorView, NodeView, Occupant
from apps.placement.policies.objective import GIB
from apps.placement.policies.reasons import gib
from apps.placement.policies.remedies import (
    MOST_TRIED,
    Remedy,
    Widened,
    asking_less,
    conditions_less,
    place_of,
    scaled,
    tried,
)
from workers.contracts.telemetry import DISK_MARGIN_BYTES

_NEW = "a new node"
# Of a node and an engine: what to do, and the node once it is done; None where there is nothing to do.
_Help = Callable[[NodeView, str], tuple[str, NodeView] | None]


def remedies(nodes: Sequence[NodeView], demand: Demand, *, widened: Widened | None = None) -> list[Remedy]:
    """The cheapest kinds first. Empty: nothing is missing. Where nothing else would do, what a new node must have."""
    if place_of(nodes, demand) is not None:
        return []
    found = [*asking_less(nodes, demand, widened or scaled(demand))]
    for help_with in (_opened, _with_engine, _mended, _without_foreign):
        found += _helped(nodes, demand, help_with)
    found += [*_more_disk(nodes, demand), *_without_others(nodes, demand)]
    return found or _of_two_steps(nodes, demand)


def _of_two_steps(nodes: Sequence[NodeView], demand: Demand) -> list[Remedy]:
    """A new node, or two conditions less; where they contradict each other, a new node and one less."""
    fewer = [each for change, relaxed in conditions_less(demand, 2) for each in tried(nodes, relaxed, change)]
    found = [*fewer, *_new_node(nodes, demand, "")]
    less = ((f"{change} and ", relaxed) for change, relaxed in conditions_less(demand, 1))
    return found or [each for change, relaxed in less for each in _new_node(nodes, relaxed, change)]


def _helped(nodes: Sequence[NodeView], demand: Demand, help_with: _Help) -> Iterator[Remedy]:
    done = (changed for node in nodes if (changed := help_with(node, demand.shape.engine)))
    for change, node in islice((each for each in done if _may_help(each[1], demand)), MOST_TRIED):
        yield from tried(_instead(nodes, node), demand, change)


def _opened(node: NodeView, engine: str) -> tuple[str, NodeView] | None:  # noqa: ARG001 - as the others
    steps = [
        *([f"bring {node.name} back, which is {node.state}"] if node.state != ONLINE else []),
        *([f"cancel the drain of {node.name}"] if node.is_draining else []),
        *([f"uncordon {node.name}"] if node.is_cordoned else []),
    ]
    opened = replace(node, state=ONLINE, is_draining=False, is_cordoned=False)
    return (" and ".join(steps), opened) if steps else None


def _with_engine(node: NodeView, engine: str) -> tuple[str, NodeView] | None:
    if node.engines is None or engine in node.engines:
        return None
    return f"set up {engine} on {node.name}", replace(node, engines=node.engines | {engine})


def _mended(node: NodeView, engine: str) -> tuple[str, NodeView] | None:  # noqa: ARG001
    sick = [each.key for each in node.accelerators if not each.is_healthy]
    healed = tuple(replace(each, is_healthy=True) for each in node.accelerators)
    return (f"mend {', '.join(sick)} of {node.name}", replace(node, accelerators=healed)) if sick else None


def _without_foreign(node: NodeView, engine: str) -> tuple[str, NodeView] | None:  # noqa: ARG001
    """All of it; how much on which is said."""
    taken = [f"{gib(each.foreign_bytes)} on {each.key}" for each in node.accelerators if each.foreign_bytes]
    free = tuple(replace(each, foreign_bytes=0) for each in node.accelerators)
    words = f"end what others run on {node.name} ({', '.join(taken)})"
    return (words, replace(node, accelerators=free)) if taken else None


def _more_disk(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    """Old weights deleted, or another disk; to the tenth of a GiB above, so that what is read is enough."""
    disks = Disks(nodes)
    missing = [(disks.missing_bytes(number, demand), node) for number, node in enumerate(nodes)]
    short = sorted((pair for pair in missing if pair[0]), key=lambda pair: (pair[0], pair[1].name))
    freed = ((_with_disk(node, lack), lack) for lack, node in short)
    for node, lack in islice((pair for pair in freed if _may_help(pair[0], demand)), MOST_TRIED):
        words = f"free {-(-lack * 10 // GIB) / 10:.1f} GiB more of the disk of {node.name}"
        yield from tried(_instead(nodes, node), demand, words)


def _with_disk(node: NodeView, lack_bytes: int) -> NodeView:
    return replace(node, disk_free_bytes=(node.disk_free_bytes or 0) + lack_bytes)


def _without_others(nodes: Sequence[NodeView], demand: Demand) -> Iterator[Remedy]:
    """As few replicas as are enough, off one node; a move of those of several is what re-packing proposes."""
    crowded = sorted((node for node in nodes if node.occupants), key=lambda node: _weights(node)[:1])
    leaving = ((node, _enough(node, demand)) for node in crowded)
    doing = ((node, those) for node, those in leaving if those)
    for node, those in sorted(islice(doing, MOST_TRIED), key=lambda pair: len(pair[1])):
        who = "replica" if len(those) == 1 else f"{len(those)} replicas"
        words = f"move {who} {', '.join(str(each.replica_id) for each in those)} off {node.name}"
        found = list(tried(_instead(nodes, _without(node, those)), demand, words))
        if found:
            yield found[0]
            return


def _enough(node: NodeView, demand: Demand) -> list[Occupant]:
    """The lightest go until it fits; who need not have gone stays. Empty where that is of no use."""
    ordered = sorted(node.occupants, key=_weight)
    gone: list[Occupant] = []
    while not _may_help(_without(node, gone), demand):
        if len(gone) == len(ordered):
            return []
        gone.append(ordered[len(gone)])
    for each in reversed(list(gone)):
        others = [other for other in gone if other is not each]
        gone = others if _may_help(_without(node, others), demand) else gone
    return gone


def _without(node: NodeView, gone: Sequence[Occupant]) -> NodeView:
    ids = {each.replica_id for each in gone}
    return replace(node, occupants=tuple(each for each in node.occupants if each.replica_id not in ids))


def _weights(node: NodeView) -> list[tuple[int, int, int]]:
    return sorted(_weight(each) for each in node.occupants)


def _weight(occupant: Occupant) -> tuple[int, int, int]:
    return len(occupant.keys), occupant.bytes_each, occupant.replica_id.int


def _may_help(node: NodeView, demand: Demand) -> bool:
    """Whether it takes a stage by itself: asked of one node, which is quick."""
    stage = replace(demand, shape=replace(demand.shape, pipeline_parallel=1))
    return place_of([node], stage) is not None


def _instead(nodes: Sequence[NodeView], node: NodeView) -> list[NodeView]:
    return [node if each.node_id == node.node_id else each for each in nodes]


def _new_node(nodes: Sequence[NodeView], demand: Demand, first: str) -> Iterator[Remedy]:
    shape = demand.shape
    each_bytes = _size_of_new(shape)
    accelerators = tuple(_new_accelerator(shape, each_bytes, index) for index in range(shape.accelerator_count))
    node = NodeView(
        node_id=UUID(int=0),
        name=_NEW,
        labels=dict(shape.labels),
        accelerators=accelerators,
        disk_free_bytes=demand.weights_bytes + DISK_MARGIN_BYTES,
    )
    yield from tried([*nodes, node], demand, f"{first}add a node with {_new_words(shape, each_bytes)}")


def _size_of_new(shape: Shape) -> int | None:
    needed = max([shape.memory_bytes or 0, *(each for _, each in shape.memory_by_model)])
    if not needed:
        return None
    tenths = -(-int(needed / (shape.memory_share or 1)) * 10 // GIB) + 1
    return tenths * GIB // 10


def _new_accelerator(shape: Shape, memory_bytes: int | None, index: int) -> AcceleratorView:
    return AcceleratorView(
        key=str(index),
        kind=shape.on,
        model=shape.models[0] if shape.models else "",
        memory_bytes=memory_bytes,
        island=0,
        profile=shape.profile,
    )


def _new_words(shape: Shape, memory_bytes: int | None) -> str:
    count, kind = shape.accelerator_count, shape.on.upper()
    model = f" {' or '.join(shape.models)}" if shape.models else f" {shape.profile}" if shape.profile else ""
    size = f" of at least {gib(memory_bytes)}" if memory_bytes else ""
    island = " on one NVLink island" if shape.needs_nvlink and shape.on == GPU and count > 1 else ""
    labels = "".join(f", {name}={value}" for name, value in shape.labels)
    return f"{count}{model} {kind}{'' if count == 1 else 's'}{size}{island}{labels}"

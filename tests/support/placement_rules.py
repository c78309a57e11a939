"""What no plan may do, written down a second time and without the planner: sentences of what is wrong."""

from collections import Counter
from itertools import combinations

from apps.placement.policies.fleet import MIG

GIB = 1024**3


def broken_rules(nodes, placed):
    """`placed` are pairs of a demand and its stages; who is an occupant of `nodes` is there besides."""
    by_id = {node.node_id: node for node in nodes}
    wrong = [text for demand, stages in placed for text in _of_one(by_id, demand, stages)]
    return [*wrong, *_of_memory(nodes, placed), *_of_neighbours(by_id, placed), *_of_disks(nodes, placed)]


def _of_disks(nodes, placed):
    for node in nodes:
        there = {*node.cached, *node.coming, ""}
        here = [each for each, stages in placed if any(stage.node_id == node.node_id for stage in stages)]
        fetched = {each.weights_key: each.weights_bytes for each in here if each.weights_key not in there}
        room = (node.disk_free_bytes or 0) - GIB - sum(node.coming.values())
        if any(fetched.values()) and sum(fetched.values()) > room:
            yield f"more weights are fetched than the disk of {node.name} holds"


def gpus_of(by_id, stages):
    return [[_gpu(by_id[stage.node_id], key) for key in stage.keys] for stage in stages]


def _gpu(node, key):
    return next(each for each in node.accelerators if each.key == key)


def _of_one(by_id, demand, stages):
    shape, groups = demand.shape, gpus_of(by_id, stages)
    everywhere = [gpu for group in groups for gpu in group]
    hosts = [by_id[stage.node_id] for stage in stages]
    rules = {
        "has another number of stages": len(stages) == shape.pipeline_parallel,
        "has another width": all(len(group) == shape.tensor_parallel for group in groups),
        "has a GPU twice": len({(s.node_id, key) for s in stages for key in s.keys}) == shape.accelerator_count,
        "has uneven parts": len(set(Counter(stage.node_id for stage in stages).values())) == 1,
        "is on several nodes": shape.may_span or len({stage.node_id for stage in stages}) == 1,
        "is on a node that takes nobody": all(n.state == "online" and not n.is_cordoned for n in hosts),
        "is on a node without its engine": all(n.engines is None or shape.engine in n.engines for n in hosts),
        "is on a node without its labels": all(n.labels.get(k) == v for n in hosts for k, v in shape.labels),
        "is on another kind": all(gpu.kind == shape.on and gpu.is_healthy for gpu in everywhere),
        "is on another model": not shape.models or all(gpu.model in shape.models for gpu in everywhere),
        "is on another profile": not shape.profile or all(gpu.profile == shape.profile for gpu in everywhere),
        "is too dear": shape.max_usd_per_h is None or all(g.usd_per_h <= shape.max_usd_per_h for g in everywhere),
        "mixes models": len({gpu.model for gpu in everywhere}) == 1,
        "mixes sizes": all(len({gpu.memory_bytes for gpu in group}) == 1 for group in groups),
        "leaves its island": not shape.needs_nvlink or all(map(_is_one_island, groups)),
        "spans slices": shape.on != MIG or shape.accelerator_count == 1,
    }
    return [f"replica {demand.replica_id.int} {text}" for text, holds in rules.items() if not holds]


def _is_one_island(group):
    return len(group) == 1 or (group[0].island is not None and len({gpu.island for gpu in group}) == 1)


def bytes_on(shape, gpu):
    """What is reserved there, and what is needed."""
    needed = dict(shape.memory_by_model).get(gpu.model, shape.memory_bytes)
    return (int(shape.memory_share * (gpu.memory_bytes or 0)) if shape.memory_share is not None else needed), needed


def _of_memory(nodes, placed):
    for node in nodes:
        for gpu in node.accelerators:
            yield from _of_gpu(node, gpu, placed)


def _of_gpu(node, gpu, placed):
    there = [each for each in node.occupants if gpu.key in each.keys]
    new = [demand for demand, stages in placed if any(s.node_id == node.node_id and gpu.key in s.keys for s in stages)]
    where = f"on {node.name} {gpu.key}"
    reserved = sum(each.bytes_each for each in there) + sum(bytes_on(each.shape, gpu)[0] for each in new)
    if new and (gpu.memory_bytes is None or gpu.foreign_bytes + reserved > gpu.memory_bytes):
        yield f"more memory is promised than there is {where}"
    if any(bytes_on(each.shape, gpu)[0] < bytes_on(each.shape, gpu)[1] for each in new):
        yield f"a share is smaller than the need {where}"
    awake = [each.is_exclusive for each in there if not each.is_asleep] + [each.shape.is_exclusive for each in new]
    if new and any(awake) and len(awake) > 1:
        yield f"somebody who is alone is not {where}"


def _of_neighbours(by_id, placed):
    """Pairs of which at least one is new."""
    new = [(each, by_id[where], each.shape.apart) for each, stages in placed for where in {s.node_id for s in stages}]
    old = [(each, node, "") for node in by_id.values() for each in node.occupants]
    for one, other in [*combinations(new, 2), *((each, there) for each in new for there in old)]:
        if one[0].replica_id != other[0].replica_id:
            yield from _of_pair(*one, *other[:2])


def _of_pair(one, where, apart, other, other_where):
    mine, others = one.deployment_id, other.deployment_id
    if where is other_where and (others in one.avoids or mine in other.avoids):
        yield f"{mine.int} and {others.int} share {where.name}"
    if apart and mine == others and is_same_domain(where, other_where, apart):
        yield f"two of {mine.int} are in one {apart}"


def is_same_domain(one, other, apart):
    value = one.labels.get(apart)
    return one is other if apart == "node" or value is None else value == other.labels.get(apart)

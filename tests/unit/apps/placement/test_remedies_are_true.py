"""Each advice, done as it is worded and by another reading of the words, lets the replica have a place."""

import re
from dataclasses import replace
from uuid import UUID

import pytest

from apps.placement.policies.explaining import as_if_applied
from apps.placement.policies.fleet import AcceleratorView, NodeView
from apps.placement.policies.helping import remedies
from apps.placement.policies.planning import make_plan
from tests.support.fleets import GIB, box, demand, gpu, node, occupant, seeded
from tests.support.odd_fleets import odd_instance

pytestmark = pytest.mark.unit

FLEETS = 120


def test_what_is_said_to_make_it_fit_does_make_it_fit():
    told = 0
    for seed in range(FLEETS):
        nodes, demands = odd_instance(seeded(seed))
        plan = make_plan(nodes, demands)
        full = as_if_applied(nodes, plan.assignments)
        for wanted in plan.unplaced[:2]:
            for remedy in remedies(full, wanted):
                told += 1
                changed_nodes, changed = _done(full, wanted, remedy.change)
                assert make_plan(changed_nodes, [changed]).assignments, f"fleet {seed}: {remedy.change}"
    assert told > FLEETS


def test_whoever_has_no_place_is_told_something():
    for seed in range(FLEETS):
        nodes, demands = odd_instance(seeded(seed))
        plan = make_plan(nodes, demands)
        full = as_if_applied(nodes, plan.assignments)
        assert all(remedies(full, wanted) for wanted in plan.unplaced[:2]), f"fleet {seed}"


def _done(nodes, wanted, change):
    """Steps are joined by "and", which also joins two that open one node."""
    for step in re.split(r" and (?=allow|add|share|drop|ask)", change):
        nodes, wanted = _step(nodes, wanted, step)
    return nodes, wanted


def _step(nodes, wanted, change):
    for pattern, act in _ACTS:
        if found := re.fullmatch(pattern, change):
            return act(nodes, wanted, *found.groups())
    raise AssertionError(f"nobody knows how to do: {change}")


def _asking(**fields):
    return lambda nodes, wanted, *_: (nodes, replace(wanted, shape=replace(wanted.shape, **fields)))


def _on(name_of, change_node):
    def act(nodes, wanted, *words):
        name = words[name_of]
        return [change_node(each, wanted, *words) if each.name == name else each for each in nodes], wanted

    return act


def _of_gpus(each, keys, **fields):
    return replace(each, accelerators=tuple(replace(a, **fields) if a.key in keys else a for a in each.accelerators))


def _moved(each, wanted, ids, name):
    return replace(each, occupants=tuple(o for o in each.occupants if str(o.replica_id) not in ids.split(", ")))


def _memory(nodes, wanted, size, *rest):
    return _asking(memory_bytes=int(float(size) * GIB), memory_by_model=())(nodes, wanted)


def _wider(nodes, wanted, width, size):
    shape = replace(wanted.shape, tensor_parallel=int(width), memory_bytes=int(float(size) * GIB))
    return nodes, replace(wanted, shape=replace(shape, memory_by_model=()))


def _new_node(nodes, wanted, *words):
    count, _, size, island, labels = words
    gpus = tuple(
        AcceleratorView(
            key=str(i),
            kind=wanted.shape.on,
            model=wanted.shape.models[0] if wanted.shape.models else "any",
            profile=wanted.shape.profile,
            memory_bytes=int(float(size) * GIB) if size else None,
            island=0 if island else None,
        )
        for i in range(int(count))
    )
    labelled = dict(pair.split("=") for pair in labels.split(", ") if pair)
    new = NodeView(node_id=UUID(int=9), name="new", accelerators=gpus, labels=labelled, disk_free_bytes=10**15)
    return [*nodes, new], wanted


_ACTS = [
    (r"ask for one MIG slice", _asking(tensor_parallel=1, pipeline_parallel=1)),
    (r"drop the node labels asked for", _asking(labels=())),
    (r"allow other MIG profiles", _asking(profile="")),
    (r"allow replicas of the deployment side by side", _asking(apart="")),
    (r"allow tensor parallel over PCIe", _asking(needs_nvlink=False)),
    (r"share GPUs with other replicas", _asking(is_exclusive=False)),
    (r"allow it beside the deployments it avoids", lambda nodes, wanted: (nodes, replace(wanted, avoids=()))),
    (
        r"allow (.+), too",
        lambda nodes, wanted, name: _asking(models=(*wanted.shape.models, name))(nodes, wanted),
    ),
    (
        r"allow (\S+) USD/h for each GPU instead of \S+",
        lambda nodes, wanted, usd: _asking(max_usd_per_h=float(usd))(nodes, wanted),
    ),
    (r"need at most (\S+) GiB on each (GPU|node).*", _memory),
    (
        r"give it (\d+)% of each GPU's memory instead of .*",
        lambda nodes, wanted, share: _asking(memory_share=int(share) / 100)(nodes, wanted),
    ),
    (r"tensor parallel (\d+), about (\S+) GiB on each GPU", _wider),
    (
        r"(?:.* and )?uncordon (\S+)",
        _on(0, lambda each, wanted, name: replace(each, state="online", is_cordoned=False, is_draining=False)),
    ),
    (
        r"(?:.* and )?cancel the drain of (\S+)",
        _on(0, lambda each, *_: replace(each, state="online", is_draining=False)),
    ),
    (r"bring (\S+) back, which is \w+", _on(0, lambda each, *_: replace(each, state="online"))),
    (r"set up (\w+) on (\S+)", _on(1, lambda each, _, engine, name: replace(each, engines=each.engines | {engine}))),
    (r"mend (.+) of (\S+)", _on(1, lambda each, _, keys, name: _of_gpus(each, keys.split(", "), is_healthy=True))),
    (
        r"end what others run on (\S+) \((.+)\)",
        _on(0, lambda each, _, name, keys: _of_gpus(each, re.findall(r"GiB on ([^,]+)", keys), foreign_bytes=0)),
    ),
    (
        r"free (\S+) GiB more of the disk of (\S+)",
        _on(
            1, lambda each, _, gib, name: replace(each, disk_free_bytes=each.disk_free_bytes + round(float(gib) * GIB))
        ),
    ),
    (r"move (?:replica|\d+ replicas) (.+) off (\S+)", _on(1, _moved)),
    (r"add a node with (\d+) (.+?)(?: of at least (\S+) GiB)?( on one NVLink island)?((?:, \S+=\S+)*)", _new_node),
]


def changes(nodes, wanted):
    return [each.change for each in remedies(nodes, wanted)]


def test_what_is_said_in_tenths_is_never_a_little_too_much():
    odd = node(1, gpu(0, foreign_bytes=int(30.06 * GIB)))
    assert "need at most 49.9 GiB on each GPU instead of 60.0 GiB (shorter context, quantised weights)" in changes(
        [odd], demand(gib=60)
    )
    short = node(1, gpu(0), disk_free_bytes=10 * GIB)
    assert changes([short], demand(gib=10, weights_key="w", weights_gib=12.04)) == [
        "free 3.1 GiB more of the disk of n0001"
    ]


def test_a_share_that_is_too_large_or_too_small_is_answered_with_one_that_does():
    half = demand(gib=10, memory_share=0.5, is_exclusive=False)
    assert changes([node(1, gpu(0, foreign_bytes=50 * GIB))], half)[0] == (
        "give it 37% of each GPU's memory instead of 50%"
    )
    small = demand(gib=30, memory_share=0.25, is_exclusive=False)
    assert "give it 38% of each GPU's memory instead of 25%" in changes([node(1, gpu(0))], small)


def test_a_price_and_a_model_are_named_that_would_do():
    nodes = [box(1, "L40S", count=1)]
    assert changes(nodes, demand(gib=20, models=("H100",))) == ["allow L40S, too"]
    assert changes(nodes, demand(gib=20, max_usd_per_h=1.0)) == ["allow 1.80 USD/h for each GPU instead of 1.00"]


def test_a_node_that_is_closed_in_two_ways_is_opened_in_both():
    closed = box(1, count=1, is_cordoned=True, is_draining=True)
    assert changes([closed], demand()) == ["cancel the drain of n0001 and uncordon n0001"]
    assert changes([box(1, count=1, state="offline")], demand()) == ["bring n0001 back, which is offline"]


def test_other_peoples_processes_are_named_with_what_they_hold():
    taken = node(1, gpu(0, foreign_bytes=60 * GIB))
    assert changes([taken], demand(gib=70))[-1] == "end what others run on n0001 (60.0 GiB on 0)"


def test_several_replicas_are_moved_where_one_is_not_enough():
    full = box(1, count=2, occupants=(occupant(1, "0", gib=60), occupant(2, "1", gib=60)))
    wide = demand(tensor_parallel=2, gib=60)
    assert changes([full], wide)[-1] == f"move 2 replicas {UUID(int=10_001)}, {UUID(int=10_002)} off n0001"


def test_where_nothing_else_helps_a_new_node_is_described():
    assert changes([box(1, "L4", count=1)], demand(gib=60, tensor_parallel=2, needs_nvlink=True)) == [
        "add a node with 2 GPUs of at least 60.1 GiB on one NVLink island"
    ]
    assert changes([], demand(gib=20, labels=(("zone", "a"),))) == [
        "add a node with 1 GPU of at least 20.1 GiB, zone=a"
    ]

"""Weights that are not on a node's disk yet must fit there."""

from uuid import UUID

import pytest

from apps.placement.policies.demand import Stage
from apps.placement.policies.explaining import as_if_applied, explain
from apps.placement.policies.fetching import fetched_key
from apps.placement.policies.helping import remedies
from apps.placement.policies.planning import make_plan
from apps.placement.policies.repacking import Running, propose_moves
from tests.support.fleets import GIB, box, demand, gpu, node, seeded

pytestmark = pytest.mark.unit


def with_weights(number=1, *, gib=20, key="w", **facts):
    return demand(number, weights_key=key, weights_gib=gib, gib=10, **facts)


def disk(number, free_gib, count=8, **facts):
    free = None if free_gib is None else int(free_gib * GIB)
    return box(number, count=count, disk_free_bytes=free, **facts)


def where(nodes, *demands, **options):
    found = {each.demand.replica_id: each.node_id.int for each in make_plan(nodes, demands, **options).assignments}
    return [found.get(each.replica_id) for each in demands]


def test_weights_must_fit_and_a_gibibyte_stays_free():
    assert where([disk(1, 20.9), disk(2, 21)], with_weights()) == [2]
    assert where([disk(1, 20.9)], with_weights()) == [None]


def test_weights_that_are_there_or_on_their_way_need_no_more():
    assert where([disk(1, 0, cached=frozenset({"w"}))], with_weights()) == [1]
    assert where([disk(1, 5, coming={"w": 20 * GIB})], with_weights()) == [1]


def test_nothing_to_fetch_needs_no_disk():
    assert where([disk(1, 0)], with_weights(gib=0)) == [1]


def test_a_disk_of_which_nothing_is_known_is_not_taken_for_empty():
    assert where([disk(1, None)], with_weights()) == [None]


def test_several_replicas_of_one_version_on_a_node_count_once_and_another_version_counts_too():
    same = [with_weights(number, strategy="pack") for number in (1, 2, 3)]
    assert where([disk(1, 21)], *same) == [1, 1, 1]
    other = with_weights(4, deployment=2, key="v")
    assert where([disk(1, 40.9)], *same, other) == [1, 1, 1, None]
    assert where([disk(1, 41)], *same, other) == [1, 1, 1, 1]


def test_a_version_that_no_disk_takes_keeps_no_other_version_of_its_deployment_away():
    larger, smaller = with_weights(1, gib=60, key="large"), with_weights(2, gib=20, key="small")
    assert where([disk(1, 41)], larger, smaller) == [None, 1]


def test_what_is_promised_to_weights_on_their_way_is_not_given_twice():
    assert where([disk(1, 40.9, coming={"v": 20 * GIB})], with_weights()) == [None]
    assert where([disk(1, 41, coming={"v": 20 * GIB})], with_weights()) == [1]


def test_each_node_of_a_pipeline_needs_the_weights():
    stages = with_weights(tensor_parallel=4, pipeline_parallel=2)
    full, wide = disk(1, 5, count=4), disk(2, 21, count=4)
    assert where([full, wide], stages) == [None]
    assert where([full, wide, disk(3, 21, count=4)], stages) == [2]


def test_a_plan_that_is_improved_never_takes_more_than_there_is():
    demands = [with_weights(n, deployment=n, key=f"w{n}", strategy="pack") for n in range(1, 7)]
    nodes = [disk(1, 41), disk(2, 61), disk(3, 21)]
    found = [each for each in where(nodes, *demands, rounds=200, random=seeded(3)) if each]
    assert sorted(found) == [1, 1, 2, 2, 2, 3]


def said(nodes, wanted):
    return [str(each) for each in explain(nodes, wanted)]


def test_the_rejection_says_it_in_numbers_beside_what_the_gpus_lack():
    needed, promised = "20.0 GiB of weights are to be fetched", "15.0 GiB of that for weights on their way"
    small = node(1, gpu(0, "L4"), disk_free_bytes=30 * GIB, coming={"v": 15 * GIB})
    assert said([small], with_weights(models=("H100",))) == [
        f"n0001: {needed}, 30.0 GiB of its disk is free ({promised}, 1.0 GiB stays free)",
        "n0001 0: is a L4, not H100",
        "n0001: 0 of the 1 gpus needed do",
    ]
    assert said([disk(1, None)], with_weights()) == [
        f"n0001: {needed}, and it does not say how much of its disk is free"
    ]


def test_what_a_plan_takes_is_in_the_way_of_those_that_found_no_place():
    nodes, one, other = [disk(1, 25)], with_weights(), with_weights(2, deployment=2, key="v")
    plan = make_plan(nodes, [one, other])
    assert [each.replica_id for each in plan.unplaced] == [other.replica_id]
    assert "(20.0 GiB of that for weights on their way" in said(as_if_applied(nodes, plan.assignments), other)[0]


def test_how_much_more_disk_would_make_it_fit_is_said_of_the_least_first():
    nodes = [disk(1, 11), disk(2, 16), disk(3, 1, count=0), disk(4, None)]
    assert [(each.change, each.node_names) for each in remedies(nodes, with_weights())] == [
        ("free 5.0 GiB more of the disk of n0002", ("n0002",)),
        ("free 10.0 GiB more of the disk of n0001", ("n0001",)),
    ]


def test_a_move_goes_where_its_weights_fit_and_who_stays_needs_no_more():
    one, two = (with_weights(n, deployment=n, key=f"w{n}", is_exclusive=False, strategy="pack") for n in (1, 2))
    nodes = [disk(n, 5, count=1, cached=frozenset({f"w{n}"})) for n in (1, 2)]
    running = [
        Running(demand=wanted, stages=(Stage(node_id=UUID(int=n), keys=("0",)),)) for n, wanted in ((1, one), (2, two))
    ]
    assert propose_moves(nodes, running, rounds=100, random=seeded(1)).moves == ()


@pytest.mark.parametrize(
    ("asked", "key"),
    [
        (("vllm", "meta/llama", "", {}), "meta/llama"),
        (("vllm", "meta/llama", "v2", {}), "meta/llama@v2"),
        (("vllm", "/models/llama", "", {}), ""),
        (("vllm", "smollm2-135m-instruct", "", {}), ""),
        (("fake", "meta/llama", "", {}), ""),
        (("fake", "op", "", {"weights_repository": "acme/tiny"}), "acme/tiny"),
        (("fake", "op", "", {"weights_repository": 7}), ""),
        (("llamacpp", "a/b", "", {}), ""),
        (("llamacpp", "s3://models/a", "d1", {}), "s3://models/a@d1"),
    ],
)
def test_what_is_fetched_is_what_the_adapters_fetch(asked, key):
    assert fetched_key(*asked) == key

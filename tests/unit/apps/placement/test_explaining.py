from uuid import UUID

import pytest

from apps.placement.policies.explaining import explain, in_words
from apps.placement.policies.helping import remedies
from apps.placement.policies.planning import make_plan
from tests.support.fleets import GIB, box, demand, gpu, node, occupant

pytestmark = pytest.mark.unit


def why(nodes, wanted):
    return [str(each) for each in explain(nodes, wanted)]


def test_every_gpu_says_in_numbers_why_it_does_not_do():
    gpus = (gpu(0, foreign_bytes=30 * GIB), gpu(1), gpu(2, is_healthy=False), gpu(3, "L4"))
    needed = "70.0 GiB is needed"
    busy = node(1, *gpus, occupants=(occupant(1, "1", gib=20, is_exclusive=False),))
    assert why([busy], demand(gib=70, is_exclusive=False, models=("H100",))) == [
        f"n0001 0: {needed}, 50.0 GiB of 80.0 GiB is free (0.0 GiB reserved by replicas, 30.0 GiB used by others)",
        f"n0001 1: {needed}, 60.0 GiB of 80.0 GiB is free (20.0 GiB reserved by replicas, 0.0 GiB used by others)",
        "n0001 2: is not healthy",
        "n0001 3: is a L4, not H100",
        "n0001: 0 of the 1 gpus needed do",
    ]


def test_a_gpu_that_is_in_use_says_how_much_of_it_and_one_that_is_too_small_anyway_says_that():
    taken = [box(1, count=1, occupants=(occupant(1, "0", gib=20),))]
    words = "of 80.0 GiB is free ("
    held, too_small = why(taken, demand(gib=60))[0], why(taken, demand(gib=200))[0]
    assert "is held by a replica that does not share it: " in held
    assert words in held
    assert "200.0 GiB is needed, " in too_small
    assert words in too_small


def test_whole_nodes_are_refused_in_one_line():
    nodes = [box(1, is_cordoned=True), box(2, state="offline"), box(3, labels={"zone": "b"}), node(4)]
    assert why(nodes, demand(labels=(("zone", "a"),))) == [
        "n0001: is cordoned",
        "n0002: is offline",
        "n0003: its label zone is b, not a",
        "n0004: its label zone is not set, not a",
    ]


def test_a_share_that_is_too_small_says_how_much_it_is():
    assert why([node(1, gpu(0))], demand(gib=40, memory_share=0.25, is_exclusive=False))[0] == (
        "n0001 0: a share of 25% is 20.0 GiB of 80.0 GiB, and 40.0 GiB is needed"
    )


def test_too_few_gpus_and_too_few_links_are_told_apart():
    assert why([box(1, count=2)], demand(tensor_parallel=4)) == ["n0001: 2 of the 4 gpus needed do"]
    pcie = box(1, count=2, nvlink=False)
    assert why([pcie], demand(tensor_parallel=2, needs_nvlink=True)) == [
        "n0001: the most that do on one NVLink island are 0"
    ]


def test_anti_affinity_says_what_is_in_the_way():
    taken = box(1, occupants=(occupant(1, "0", deployment=1),))
    assert why([taken], demand(apart="node")) == ["n0001: another replica of this deployment is here"]


def test_a_long_answer_is_cut_where_a_reader_would_stop():
    text = in_words(explain([box(i, is_cordoned=True) for i in range(200)], demand()))
    assert len(text) < 2000
    assert text.endswith("more")


def test_an_empty_fleet_says_so():
    assert in_words(explain([], demand())) == "no node has joined"


def changes(nodes, wanted):
    return [each.change for each in remedies(nodes, wanted)]


def test_what_would_make_it_fit_is_tried_and_not_guessed():
    assert changes([box(1, count=1, is_cordoned=True)], demand()) == ["uncordon n0001"]
    assert changes([box(1, "L4", count=1)], demand(gib=20, models=("H100",))) == ["allow L4, too"]
    assert changes([box(1, count=1)], demand()) == []


def test_the_most_memory_with_which_it_would_fit_is_found():
    found = changes([node(1, gpu(0, foreign_bytes=30 * GIB))], demand(gib=60))
    assert found[:1] == ["need at most 50.0 GiB on each GPU instead of 60.0 GiB (shorter context, quantised weights)"]


def test_more_gpus_or_another_replica_moved_are_answers_too():
    wide = remedies([box(1, count=4)], demand(gib=120))
    assert [each.change for each in wide][-2:] == [
        "tensor parallel 2, about 60.0 GiB on each GPU",
        "tensor parallel 4, about 30.0 GiB on each GPU",
    ]
    full = box(1, count=1, occupants=(occupant(1, "0", gib=60),))
    moved = remedies([full], demand(gib=60))
    assert moved[-1].change == f"move replica {UUID(int=10_001)} off n0001"
    assert moved[-1].node_names == ("n0001",)


def test_stages_that_may_not_span_nodes_say_so_though_together_there_is_room():
    nodes = [box(1, count=4), box(2, count=4)]
    alone = demand(tensor_parallel=4, pipeline_parallel=2, may_span=False)
    assert make_plan(nodes, [alone]).unplaced == [alone]
    said = in_words(explain(nodes, alone))
    assert "takes 1 of the 2 pipeline stages, and all are to be on one node" in said
    assert make_plan([box(3)], [alone]).assignments[0].node_ids == (UUID(int=3),)


def test_gpus_that_do_and_are_not_alike_say_how_many_are():
    mixed = node(1, gpu(0, "H100"), gpu(1, "L40S"))
    assert why([mixed], demand(tensor_parallel=2)) == ["n0001: the most of one model that do are 1 of the 2 needed"]


def test_who_avoids_and_who_is_avoided_is_told_the_same():
    taken = box(1, occupants=(occupant(1, "0", deployment=2, avoids=(1,)),))
    assert why([taken], demand()) == ["n0001: has a replica that must not share a node with this one"]
    assert why([box(1, occupants=(occupant(1, "0", deployment=2),))], demand(avoids=(2,))) == why([taken], demand())


def test_of_many_nodes_that_would_help_a_few_are_named():
    closed = [box(number, is_cordoned=True) for number in range(1, 31)]
    changes = [each.change for each in remedies(closed, demand(gib=60))]
    assert changes == [f"uncordon n{number:04}" for number in range(1, 9)]

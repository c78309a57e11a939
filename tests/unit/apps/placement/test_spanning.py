"""Pipelines over nodes: on as few as possible, in parts of one size."""

from collections import Counter
from uuid import UUID

import pytest

from apps.placement.policies.explaining import explain, in_words
from apps.placement.policies.planning import make_plan
from tests.support.fleets import box, demand, occupant

pytestmark = pytest.mark.unit


def stages(nodes, wanted):
    plan = make_plan(nodes, [wanted])
    return plan.assignments[0].stages if plan.assignments else ()


def sizes(nodes, wanted):
    return list(Counter(stage.node_id for stage in stages(nodes, wanted)).values())


def test_one_node_is_taken_before_several():
    assert sizes([box(1, count=2), box(2, count=2), box(3, count=8)], demand(pipeline_parallel=4)) == [4]


def test_the_stages_of_a_node_follow_each_other_and_nodes_have_as_many():
    nodes = [box(1, count=3), box(2, count=3), box(3, count=1)]
    placed = stages(nodes, demand(pipeline_parallel=4))
    assert [stage.node_id.int for stage in placed] == [1, 1, 2, 2]


def test_three_and_one_are_no_parts_of_four():
    assert sizes([box(1, count=3), box(2, count=1)], demand(pipeline_parallel=4)) == []
    assert sizes([box(number, count=1) for number in range(1, 5)], demand(pipeline_parallel=4)) == [1, 1, 1, 1]


def test_tensor_parallel_stays_on_a_node():
    placed = stages([box(1, count=4), box(2, count=4)], demand(tensor_parallel=4, pipeline_parallel=2))
    assert [len(stage.keys) for stage in placed] == [4, 4]
    assert len({stage.node_id for stage in placed}) == 2


def test_a_node_without_an_address_takes_the_whole_or_nothing_and_says_so():
    lonely = [box(1, count=1), box(2, count=1, is_reachable=False)]
    wanted = demand(pipeline_parallel=2)
    assert stages(lonely, wanted) == ()
    said = in_words(explain(lonely, wanted))
    assert "n0002: takes 1 of the 2 pipeline stages, and has no address at which other nodes' parts would meet" in said
    assert sizes([box(3, count=2, is_reachable=False)], wanted) == [2]


def test_a_node_that_is_partly_taken_gives_what_it_has():
    nodes = [box(1, count=2, occupants=(occupant(1, "0", gib=70),)), box(2, count=1)]
    assert [(stage.node_id, stage.keys) for stage in stages(nodes, demand(pipeline_parallel=2))] == [
        (UUID(int=1), ("1",)),
        (UUID(int=2), ("0",)),
    ]

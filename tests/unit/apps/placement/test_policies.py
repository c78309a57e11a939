from uuid import UUID

import pytest

from apps.placement.policies import NodeView, lowest_free_port, place

pytestmark = pytest.mark.unit

DEPLOYMENT, OTHER = UUID(int=100), UUID(int=101)


def node(number, **facts):
    return NodeView(**({"node_id": UUID(int=number), "name": f"n{number}", "state": "online"} | facts))


def placed(*nodes, engine="fake"):
    return place(deployment_id=DEPLOYMENT, engine=engine, nodes=nodes)


def test_replicas_of_a_deployment_spread_over_nodes():
    crowded = node(1, replica_counts={DEPLOYMENT: 1})
    busy = node(2, replica_counts={OTHER: 5})
    assert placed(crowded, busy).node_id == UUID(int=2)


def test_among_equals_the_emptier_node_and_then_the_name_decides():
    assert placed(node(1, replica_counts={OTHER: 1}), node(2)).node_id == UUID(int=2)
    assert placed(node(2), node(1)).node_id == UUID(int=1)


def test_every_node_that_is_not_fit_says_why():
    placement = placed(
        node(1, is_cordoned=True),
        node(2, state="offline"),
        node(3, engines=frozenset({"vllm"})),
        node(4, state="joining"),
    )
    assert placement.node_id is None
    assert placement.explain() == "n1: is cordoned; n2: is offline; n3: cannot run fake; n4: is joining"


def test_a_node_that_has_not_said_what_it_can_run_is_tried():
    assert placed(node(1, engines=None)).node_id == UUID(int=1)


def test_without_nodes_the_reason_is_that_none_has_joined():
    assert placed().explain() == "no node has joined"


def test_the_lowest_free_port_is_taken_and_none_is_left_at_the_end():
    assert lowest_free_port(base=9000, taken={9000, 9001, 9003}) == 9002
    assert lowest_free_port(base=65535, taken={65535}) is None

import pytest

from workers.scheduling.interface import Request
from workers.scheduling.workflows import MAX_WORKFLOWS, Workflows

pytestmark = pytest.mark.unit


def a_call(number, workflow, *, at=0.0, deadline_at=100.0):
    return Request(
        request_id=number, version_id="v", tenant_id="t", rank=0, max_queued_of_tenant=9, arrived_at=at,
        workflow_id=workflow, deadline_at=deadline_at,
    )  # fmt: skip


def test_ids_are_bounded_in_memory():
    workflows = Workflows()
    for number in range(MAX_WORKFLOWS + 500):
        workflows.arrived(a_call(number, f"w{number}"), now=0.0)
        workflows.ended(a_call(number, f"w{number}"))
    assert len(workflows) == MAX_WORKFLOWS


def test_the_deadlines_of_forgotten_workflows_are_bounded_too():
    workflows = Workflows()
    for number in range(3 * MAX_WORKFLOWS):
        workflows.arrived(a_call(number, f"w{number}"), now=0.0)
        workflows.ended(a_call(number, f"w{number}"))
    assert len(workflows._deadlines) <= 2 * MAX_WORKFLOWS + 1


def test_the_rest_of_a_workflow_is_learned_from_those_before():
    workflows = Workflows()
    number = 0
    for run in range(200):
        for step in range(5):
            number += 1
            workflows.arrived(a_call(number, f"w{run}"), now=run * 700.0 + step * 2.0)
            workflows.ended(a_call(number, f"w{run}"))
    first = a_call(number + 1, "next")
    workflows.arrived(first, now=200 * 700.0)
    assert workflows.expected_rest_s(first) == pytest.approx(8.0, rel=0.2)


def test_calls_of_a_workflow_past_its_deadline_are_lost_once():
    workflows = Workflows()
    workflows.arrived(a_call(1, "w", deadline_at=10.0), now=0.0)
    workflows.arrived(a_call(2, "w", deadline_at=10.0), now=0.0)
    workflows.ended(a_call(1, "w"))
    assert workflows.lost(9.0) == []
    assert workflows.lost(10.5) == [2]
    assert workflows.lost(11.0) == []


def test_many_ids_of_one_tenant_push_out_none_of_another():
    workflows = Workflows()
    quiet = Request(
        request_id=0, version_id="v", tenant_id="quiet", rank=0, max_queued_of_tenant=9, arrived_at=0.0,
        workflow_id="w", deadline_at=10.0,
    )  # fmt: skip
    workflows.arrived(quiet, now=0.0)
    for number in range(1, MAX_WORKFLOWS + 500):
        workflows.arrived(a_call(number, f"w{number}"), now=1.0)
        workflows.ended(a_call(number, f"w{number}"))
    assert len(workflows) == MAX_WORKFLOWS
    assert workflows.lost(11.0) == [0]


def test_what_has_a_live_call_is_not_forgotten_for_its_age():
    workflows = Workflows()
    workflows.arrived(a_call(1, "long", deadline_at=3000.0), now=0.0)
    for number in range(2, 20):
        workflows.arrived(a_call(number, f"w{number}"), now=100.0 * number)
        workflows.ended(a_call(number, f"w{number}"))
    assert len(workflows) < 10
    assert 1 in workflows.lost(3001.0)

import pytest

from workers.gateway.driving.workflows import MAX_WORKFLOWS, Workflows, read_workflow
from workers.gateway.errors import GatewayError
from workers.gateway.payload.labels import note_headers
from workers.scheduling.interface import Request

pytestmark = pytest.mark.unit


def asked(**headers):
    named = [(f"x-workflow-{name.replace('_', '-')}".encode(), value) for name, value in headers.items()]
    return read_workflow(note_headers(named))


def call(number, *, at=0.0, tenant="t", deadline_at=None):
    return Request(
        request_id=number,
        version_id="v",
        tenant_id=tenant,
        rank=0,
        max_queued_of_tenant=9,
        arrived_at=at,
        deadline_at=deadline_at,
    )


def joined(workflows, request, **headers):
    workflows.join(request, asked(**headers))
    workflows.began(request)
    return request


def refusal(workflows, request, **headers):
    with pytest.raises(GatewayError) as raised:
        workflows.join(request, asked(**headers))
    return raised.value.code


def test_a_call_of_no_workflow_asks_for_nothing():
    assert asked() is None


def test_all_that_a_call_may_say_is_read():
    found = asked(
        id=b"w1",
        step=b"2",
        steps_expected=b"8",
        deadline_ms=b"60000",
        token_budget=b"5000",
        cost_budget_usd=b"0.25",
    )
    assert (found.workflow_id, found.step, found.steps_expected, found.deadline_ms) == ("w1", 2, 8, 60_000)
    assert (found.token_budget, found.cost_budget_pico_usd) == (5000, 250_000_000_000)


@pytest.mark.parametrize(
    "headers",
    [
        {"step": b"2"},
        {"id": b"w", "step": b"-1"},
        {"id": b"w", "step": b"two"},
        {"id": b"w", "deadline_ms": b"0"},
        {"id": b"w", "deadline_ms": b"1e3"},
        {"id": b"w", "deadline_ms": b"9" * 30},
        {"id": b"w", "token_budget": b""},
        {"id": b"w", "cost_budget_usd": b"NaN"},
        {"id": b"w", "cost_budget_usd": b"-1"},
        {"id": b"w", "steps_expected": "٣".encode()},
        {"id": b"w" * 300},
    ],
)
def test_an_unsound_value_is_a_400_that_names_the_header(headers):
    with pytest.raises(GatewayError) as raised:
        asked(**headers)
    assert (raised.value.status, raised.value.code) == (400, "invalid_header")
    assert raised.value.param.startswith("x-workflow-")


def test_the_scheduler_is_told_how_many_calls_are_expected():
    assert joined(Workflows(), call(1), id=b"w", steps_expected=b"8").workflow_steps == 8


def test_the_deadline_counts_from_the_first_call():
    workflows = Workflows()
    first = joined(workflows, call(1, at=10.0), id=b"w", deadline_ms=b"5000")
    second = joined(workflows, call(2, at=12.0), id=b"w", deadline_ms=b"5000")
    assert (first.deadline_at, second.deadline_at) == (15.0, 15.0)
    assert refusal(workflows, call(3, at=15.0), id=b"w") == "workflow_deadline"


def test_a_calls_own_earlier_deadline_stands_beside_the_workflows():
    found = joined(Workflows(), call(1, deadline_at=1.0), id=b"w", deadline_ms=b"5000")
    assert (found.deadline_at, found.workflow_deadline_at) == (1.0, 5.0)


def test_a_calls_own_deadline_is_none_of_a_workflow_without():
    found = joined(Workflows(), call(1, deadline_at=1.0), id=b"w")
    assert (found.deadline_at, found.workflow_deadline_at) == (1.0, 0.0)


def test_tenants_do_not_share_workflows_of_one_name():
    workflows = Workflows()
    joined(workflows, call(1, tenant="a"), id=b"w", token_budget=b"10")
    workflows.spent("a/w", 10, 0)
    assert joined(workflows, call(2, tenant="b"), id=b"w").workflow_id == "b/w"


def test_who_is_alive_when_the_tokens_are_used_up_must_end():
    workflows = Workflows()
    first = joined(workflows, call(1), id=b"w", token_budget=b"100")
    joined(workflows, call(2), id=b"w")
    joined(workflows, call(3), id=b"w")
    assert workflows.spent("t/w", 99, 0) == []
    workflows.ended(first)
    assert workflows.spent("t/w", 1, 0) == [2, 3]
    assert refusal(workflows, call(4), id=b"w") == "workflow_budget"


def test_money_is_counted_to_the_picodollar():
    workflows = Workflows()
    joined(workflows, call(1), id=b"w", cost_budget_usd=b"0.000001")
    assert workflows.spent("t/w", 0, 999_999) == []
    assert workflows.spent("t/w", 0, 1) == [1]


def test_what_was_taken_at_other_processes_counts_and_ends_who_is_alive():
    workflows = Workflows()
    joined(workflows, call(1), id=b"w", token_budget=b"100")
    assert workflows.spent("t/w", 40, 0) == []
    assert workflows.told() == {"t/w": (40, 0)}
    assert workflows.note_elsewhere({"t/w": (59, 0), "t/unknown": (1000, 0)}) == []
    assert workflows.note_elsewhere({"t/w": (60, 0)}) == [1]
    assert refusal(workflows, call(2), id=b"w") == "workflow_budget"
    assert workflows.told() == {"t/w": (40, 0)}


def test_a_workflow_that_is_first_seen_here_may_be_spent_elsewhere():
    workflows = Workflows()
    workflows.note_elsewhere({"t/w": (100, 0)})
    assert refusal(workflows, call(1), id=b"w", token_budget=b"100") == "workflow_budget"


def test_a_million_ids_are_bounded_in_memory():
    workflows = Workflows()
    for number in range(MAX_WORKFLOWS + 100):
        workflows.join(call(number), asked(id=b"w%d" % number))
    assert len(workflows) == MAX_WORKFLOWS


def test_many_ids_of_one_tenant_push_out_no_budget_of_another():
    workflows = Workflows()
    joined(workflows, call(0, tenant="quiet"), id=b"w", token_budget=b"10")
    workflows.spent("quiet/w", 20, 0)
    for number in range(1, MAX_WORKFLOWS + 500):
        joined(workflows, call(number), id=b"w%d" % number)
    assert len(workflows) == MAX_WORKFLOWS
    assert refusal(workflows, call(-1, tenant="quiet"), id=b"w") == "workflow_budget"

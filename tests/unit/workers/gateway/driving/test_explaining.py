import msgspec
import pytest

from workers.contracts.decisions import RequestDecision
from workers.contracts.settlement import Settlement
from workers.gateway.driving.explaining import MAX_A_SECOND, MAX_KEPT, DecisionNews, Explainer, choose_telling
from workers.gateway.driving.trails import MAX_TRAILS, Trail, Trails
from workers.scheduling.decision import Draft
from workers.scheduling.interface import Request
from workers.scheduling.ticket import State, Ticket

pytestmark = pytest.mark.unit

# Trails are told of on a clock that began at 100 s, people's is at 5,000 s then.
EXPLAINER = Explainer(lambda: 110.0, lambda: 5010.0)


def trail(label="r", *steps, tenant="t", account="t", **request):
    asked = Request(
        request_id=1, version_id="v", tenant_id=account, rank=1, max_queued_of_tenant=9, arrived_at=100.0, **request
    )
    made = Trail(label, tenant, "gold", asked, 100.0)
    for step in steps:
        made.add(*step)
    return made


def straight(label):
    return trail(label, ("sent", 100.0, "e"), ("first_token", 101.0, ""), ("completed", 102.0, ""))


def refused(label):
    return trail(label, ("queued", 100.0, ""), ("refused", 101.0, "queue_full"))


def test_times_are_those_of_people():
    told = EXPLAINER.explain(trail("r", ("sent", 101.5, "e"), deadline_at=130.0))
    assert (told.arrived_at, told.steps[1].at, told.deadline_at) == (5000.0, 5001.5, 5030.0)


def test_a_flow_and_a_workflow_go_by_the_names_their_client_gave():
    told = EXPLAINER.explain(trail(account="t/7", workflow_id="t/nightly"))
    assert (told.fairness_account, told.workflow_id) == ("7", "nightly")


def test_each_endpoint_has_its_score_or_its_reason():
    asked = trail()
    ticket = Ticket(asked.request, 1)
    ticket.cost_s = 0.5
    asked.decide(
        Draft(
            ticket=ticket,
            at=101.0,
            outcome="sent",
            waited_as=State.NEW,
            bid_price=0.0,
            endpoint_id="b",
            considered=[("a", None, 0.0, 0, "hot"), ("b", 0.25, 0.2, 64, "")],
        )
    )
    [choice] = EXPLAINER.explain(asked).choices
    assert (choice.at, choice.start_by, choice.density) == (5001.0, None, None)
    assert [(row.endpoint_id, row.score_s, row.reason) for row in choice.considered] == [
        ("a", None, "hot"),
        ("b", 0.25, ""),
    ]


def test_what_is_told_can_be_read_again():
    told = EXPLAINER.explain(straight("r"))
    assert msgspec.json.decode(msgspec.json.encode(told), type=RequestDecision) == told


def test_what_went_wrong_is_told_before_what_went_straight_through():
    many = [straight(f"s{number}") for number in range(3 * MAX_A_SECOND)]
    told = choose_telling([refused("bad"), *many])
    assert len(told) == MAX_A_SECOND
    assert (told[0].label, told[1].label) == ("bad", many[-1].label)


def test_news_are_numbered_and_the_oldest_fall_out():
    trails, news = Trails(), DecisionNews("boot", EXPLAINER)
    assert news.take(trails) is None
    for number in range(MAX_KEPT + 10):
        trails.close(straight(f"r{number}"))
        told = news.take(trails)
    assert (told.boot_id, told.first, len(told.decisions)) == ("boot", 10, MAX_KEPT)
    assert told.decisions[0].request_id == "r10"


def test_trails_are_bounded_in_number_and_length():
    trails, long = Trails(), straight("long")
    for number in range(MAX_TRAILS + 5):
        trails.open(straight(f"r{number}"))
        long.add("failed", 1.0, "e")
    assert trails.find("r4") is None
    assert trails.find(f"r{MAX_TRAILS + 4}") is not None
    assert len(long.steps) < 100


def test_a_request_that_was_turned_away_is_remembered_with_its_reason():
    trails = Trails()
    settlement = Settlement(
        request_id="r", arrived_at=100.0, tenant_id="t", key_id="k", user_id="", service_class="gold", path="/v1/x"
    )
    asked = Request(
        request_id=0, version_id="", tenant_id="t", rank=1, max_queued_of_tenant=0, arrived_at=100.0
    )  # fmt: skip
    trails.turned_away(settlement, asked, "refused", "rate_limit_exceeded", 100.5)
    told = EXPLAINER.explain(trails.find("r"))
    assert [(step.what, step.at, step.detail) for step in told.steps] == [
        ("arrived", 5000.0, ""),
        ("refused", 5000.5, "rate_limit_exceeded"),
    ]
    assert told.is_over
    assert [each.label for each in trails.take_ended()] == ["r"]


def test_what_is_asked_for_wrongly_does_not_crowd_out_what_failed():
    wrong = [trail(f"w{number}", ("rejected", 100.1, "model_not_found")) for number in range(MAX_A_SECOND)]
    chosen = choose_telling([refused("r"), *wrong])
    assert chosen[0].label == "r"


def test_what_is_cancelled_does_not_end_as_a_failure_of_its_engine():
    assert trail("r", ("sent", 100.0, "e"), ("cancelled", 101.0, "workflow_deadline")).was_cancelled
    assert not trail("r", ("sent", 100.0, "e")).was_cancelled

import pytest

from workers.scheduling.interface import Request
from workers.scheduling.ordering.class_queue import ClassQueue
from workers.scheduling.ticket import State, Ticket

pytestmark = pytest.mark.unit


class Queue:
    """A queue with short ways to fill and to serve it."""

    def __init__(self, *, lead_s=0.5, is_fair=True):
        self.queue = ClassQueue(lead_s, is_fair=is_fair)
        self.number = 0
        self.service = {}

    def push(self, tenant, *, rank=0, start_by=0.0, cost_s=1.0, weight=1.0):
        self.number += 1
        request = Request(
            request_id=self.number, version_id="v", tenant_id=tenant, rank=rank, max_queued_of_tenant=9,
            arrived_at=0.0, tenant_weight=weight,
        )  # fmt: skip
        ticket = Ticket(request, self.number)
        ticket.start_by, ticket.cost_s, ticket.state = start_by, cost_s, State.KEPT
        self.queue.push(ticket)
        return ticket

    def serve(self):
        ticket = self.queue.first()
        if ticket is None:
            return None
        ticket.state = State.SENT
        self.queue.served(ticket, ticket.cost_s)
        tenant = ticket.request.tenant_id
        self.service[tenant] = self.service.get(tenant, 0.0) + ticket.cost_s
        return tenant


def test_within_a_tenant_the_most_urgent_goes_first():
    queue = Queue()
    queue.push("a", start_by=3.0)
    urgent = queue.push("a", start_by=1.0)
    assert queue.queue.first() is urgent


def test_two_tenants_that_both_wait_stay_within_one_request_of_each_other():
    queue = Queue()
    for _ in range(300):
        queue.push("long", cost_s=3.0)
        queue.push("short", cost_s=0.5)
        queue.push("short", cost_s=0.5)
    gaps = []
    for _ in range(200):
        queue.serve()
        gaps.append(abs(queue.service.get("long", 0.0) - queue.service.get("short", 0.0)))
    assert max(gaps) <= 3.0


@pytest.mark.parametrize("is_told", [True, False])
def test_an_edit_of_a_weight_reaches_what_waits_already(is_told):
    """And so does the weight of a request that comes later, for all of its tenant."""
    queue = Queue()
    for _ in range(100):
        queue.push("edited", weight=1.0)
        queue.push("other", weight=1.0)
    queue.queue.set_weight("edited", 4.0 if is_told else 1.0)
    for _ in range(100):
        queue.serve()
    assert queue.service["edited"] == pytest.approx(80.0 if is_told else 50.0, abs=1.0)


def test_two_classes_that_both_wait_stay_within_the_lead_and_one_request_by_weight():
    queue = Queue(lead_s=0.5)
    for _ in range(400):
        queue.push("gold", rank=0, start_by=0.0)
        queue.push("batch", rank=2, start_by=100.0)
    gaps = []
    for _ in range(300):
        queue.serve()
        gaps.append(abs(queue.service.get("gold", 0.0) / 4 - queue.service.get("batch", 0.0)))
    assert max(gaps) <= 0.5 + 1.0
    assert queue.service["batch"] == pytest.approx(60, abs=2)


def test_an_urgent_class_goes_first_within_the_lead():
    queue = Queue(lead_s=0.5)
    for _ in range(4):
        queue.push("batch", rank=2, start_by=100.0)
        queue.push("gold", rank=0, start_by=1.0)
    assert [queue.serve() for _ in range(4)] == ["gold", "gold", "gold", "batch"]


def test_a_tenant_of_twice_the_weight_gets_twice_the_service():
    queue = Queue()
    for _ in range(100):
        queue.push("a", weight=2.0)
        queue.push("b")
    served = [queue.serve() for _ in range(60)]
    assert served.count("a") == pytest.approx(40, abs=1)


def test_idling_earns_no_credit():
    queue = Queue()
    for _ in range(50):
        queue.push("busy")
    for _ in range(40):
        queue.serve()
    for _ in range(20):
        queue.push("newcomer")
    served = [queue.serve() for _ in range(10)]
    assert served.count("busy") >= 4


def test_a_class_that_comes_back_after_a_pause_earned_no_credit_either():
    queue = Queue(lead_s=0.0)
    for _ in range(50):
        queue.push("busy", rank=1)
    for _ in range(40):
        queue.serve()
    for _ in range(20):
        queue.push("newcomer", rank=2)
    assert [queue.serve() for _ in range(12)].count("newcomer") <= 5


def test_without_fairness_only_urgency_counts():
    queue = Queue(is_fair=False)
    for _ in range(3):
        queue.push("a", rank=1, start_by=1.0)
    queue.push("b", start_by=2.0)
    assert [queue.serve() for _ in range(4)] == ["a", "a", "a", "b"]


def test_tickets_that_were_let_go_are_skipped():
    queue = Queue()
    gone = queue.push("a", start_by=1.0)
    kept = queue.push("a", start_by=2.0)
    gone.state = State.PARKED
    assert queue.queue.first() is kept
    kept.state = State.SENT
    assert queue.queue.first() is None


def test_looking_on_costs_nobody_a_turn_and_moves_nothing():
    """Whoever was passed over as nothing was free for it keeps its place before those who had more."""
    queue = Queue()
    queue.push("served", rank=1)
    queue.serve()
    waits = [queue.push(tenant, rank=rank, start_by=at) for tenant, rank, at in
             (("owed", 0, 1.0), ("served", 1, 2.0), ("owed", 1, 3.0), ("owed", 1, 2.5))]  # fmt: skip
    first, served, third, second = waits
    for _ in range(2):
        moves = queue.queue.changes
        assert list(queue.queue.look()) == [first, second, third, served]
    assert queue.queue.changes == moves


def test_what_is_let_go_and_kept_again_waits_once():
    queue = Queue()
    back = queue.push("a", start_by=1.0)
    back.state = State.PARKED
    back.state = State.KEPT
    queue.queue.push(back)
    assert list(queue.queue.look()) == [back]


@pytest.mark.parametrize("moved_s", [1e-4, -1e-4, 0.02, -0.02, 0.0])
def test_who_is_judged_again_while_it_waits_keeps_its_place_in_the_queue(moved_s):
    """Three stood where their old entries were, and were taken to be there still: nobody ever sent them."""
    queue = Queue()
    tickets = [queue.push("a", start_by=number * 0.01) for number in range(4)]
    for ticket in tickets:
        ticket.state = State.NEW
        ticket.start_by += moved_s
        ticket.state = State.KEPT
        queue.queue.push(ticket)
    assert list(queue.queue.look()) == tickets
    assert [queue.serve() for _ in range(5)] == ["a"] * 4 + [None]

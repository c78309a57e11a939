import pytest

from workers.scheduling.interface import Request
from workers.scheduling.ordering.fair_queue import FairQueue
from workers.scheduling.ticket import State, Ticket

pytestmark = pytest.mark.unit


class Queue:
    """A queue with short ways to fill and to serve it."""

    def __init__(self, *, lead_s=0.0, is_fair=True):
        self.queue = FairQueue(lead_s, is_fair=is_fair)
        self.number = 0
        self.service = {}

    def push(self, tenant, *, start_by=0.0, cost_s=1.0):
        self.number += 1
        request = Request(
            request_id=self.number, version_id="v", tenant_id=tenant, rank=0, max_queued_of_tenant=9, arrived_at=0.0
        )
        ticket = Ticket(request, self.number)
        ticket.start_by, ticket.cost_s, ticket.state = start_by, cost_s, State.KEPT
        self.queue.push(ticket)
        return ticket

    def serve(self, weight=1.0):
        ticket = self.queue.pop()
        if ticket is None:
            return None
        ticket.state = State.SENT
        self.queue.served(ticket, weight)
        tenant = ticket.request.tenant_id
        self.service[tenant] = self.service.get(tenant, 0.0) + ticket.cost_s
        return tenant


def test_within_a_tenant_the_most_urgent_goes_first():
    queue = Queue()
    queue.push("a", start_by=3.0)
    urgent = queue.push("a", start_by=1.0)
    assert queue.queue.pop() is urgent


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


def test_a_lead_lets_the_urgent_pass_but_only_so_far():
    queue = Queue(lead_s=2.0)
    for _ in range(10):
        queue.push("urgent", start_by=0.0)
        queue.push("patient", start_by=100.0)
    assert [queue.serve() for _ in range(4)] == ["urgent", "urgent", "urgent", "patient"]


def test_a_tenant_of_twice_the_weight_gets_twice_the_service():
    queue = Queue()
    for _ in range(100):
        queue.push("a")
        queue.push("b")
    served = []
    for _ in range(60):
        ticket = queue.queue.pop()
        ticket.state = State.SENT
        queue.queue.served(ticket, 2.0 if ticket.request.tenant_id == "a" else 1.0)
        served.append(ticket.request.tenant_id)
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


def test_without_fairness_only_urgency_counts():
    queue = Queue(is_fair=False)
    for _ in range(3):
        queue.push("a", start_by=1.0)
    queue.push("b", start_by=2.0)
    assert [queue.serve() for _ in range(4)] == ["a", "a", "a", "b"]


def test_tickets_that_were_let_go_are_skipped():
    queue = Queue()
    gone = queue.push("a", start_by=1.0)
    queue.push("a", start_by=2.0)
    gone.state = State.PARKED
    assert queue.queue.pop().start_by == 2.0
    assert queue.queue.pop() is None

"""However long it runs, nothing is kept of what has gone."""

import pytest

from tests.unit.workers.scheduling.bench import Bench
from workers.scheduling.interface import Request
from workers.scheduling.planning.ticket_heap import LEAST_SWEPT, TicketHeap
from workers.scheduling.ticket import State, Ticket

pytestmark = pytest.mark.unit


def a_ticket(number, state):
    request = Request(request_id=number, version_id="v", tenant_id="t", rank=0, max_queued_of_tenant=9, arrived_at=0.0)
    ticket = Ticket(request, number, "v")
    ticket.state = state
    return ticket


def test_tickets_that_have_moved_on_are_swept_out_of_a_heap():
    heap = TicketHeap(State.PARKED)
    for number in range(20 * LEAST_SWEPT):
        ticket = a_ticket(number, State.PARKED)
        heap.push(float(number), ticket)
        if number:
            ticket.state = State.GONE
    assert len(heap) <= LEAST_SWEPT + 1
    assert heap.first().number == 0


def test_far_deadlines_of_requests_that_have_gone_are_forgotten():
    bench = Bench()
    bench.endpoint(slots=1)
    bench.arrive()
    for _ in range(3000):
        number = bench.arrive(deadline_at=bench.now + 1e6)
        bench.note(bench.scheduler.request_withdrawn(number, bench.now))
    queues = bench.scheduler._queues
    assert len(queues._hopeless) <= LEAST_SWEPT + 10
    assert len(queues.pools["v1"].plan._expiring) <= LEAST_SWEPT + 10
    assert len(queues.tickets) == 1

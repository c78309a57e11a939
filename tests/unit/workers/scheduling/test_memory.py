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
    assert all(len(heap) <= LEAST_SWEPT + 10 for heap in queues.pools["v1"].plan._expiring)
    assert len(queues.tickets) == 1


@pytest.mark.parametrize("tenants", [1, 5000])
def test_who_came_and_left_is_forgotten_though_others_wait_before_it(tenants):
    bench = Bench()
    bench.endpoint(slots=1)
    bench.arrive()
    first = bench.arrive(tenant="first")
    for number in range(5000):
        left = bench.arrive(tenant=f"t{number % tenants}")
        bench.note(bench.scheduler.request_withdrawn(left, bench.now))
    queue = bench.scheduler._queues.pools["v1"]._queue._queues[0]
    assert len(queue) <= LEAST_SWEPT + 1
    assert len(queue._tenants) <= LEAST_SWEPT + 1
    assert len(queue._by_clock) <= LEAST_SWEPT + 1
    bench.finish(1)
    assert bench.order == [1, first]

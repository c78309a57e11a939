import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.scheduling.interface import Request
from workers.scheduling.planning.slots import SLOT_S, SLOTS, DeadlineSlots
from workers.scheduling.ticket import Ticket

pytestmark = pytest.mark.unit


def a_ticket(number, finish_by, work_s, density=1.0):
    request = Request(request_id=number, version_id="v", tenant_id="t", rank=0, max_queued_of_tenant=9, arrived_at=0.0)
    ticket = Ticket(request, number)
    ticket.finish_by, ticket.prefill_s, ticket.density = finish_by, work_s, density
    return ticket


def worst_overload_s(tickets, capacity, now, backlog_s):
    """By the definition: for every deadline, what is due by then and cannot be done by then."""
    worst = -float("inf")
    for ticket in tickets:
        slot = min(SLOTS - 1, int(ticket.finish_by / SLOT_S))
        due = sum(t.prefill_s for t in tickets if min(SLOTS - 1, int(t.finish_by / SLOT_S)) <= slot)
        worst = max(worst, due + backlog_s - capacity * ((slot + 1) * SLOT_S - now))
    return worst


tickets_to_be = st.lists(
    st.tuples(st.floats(0.0, 60.0), st.floats(0.01, 3.0), st.floats(0.1, 10.0)), min_size=1, max_size=25
)


@given(tickets_to_be, st.floats(0.0, 5.0), st.floats(0.0, 3.0), st.data())
def test_the_overload_is_that_of_the_worst_deadline(shapes, now, backlog_s, data):
    slots = DeadlineSlots(2.0, 0.0)
    tickets = [a_ticket(number, *shape) for number, shape in enumerate(shapes)]
    for ticket in tickets:
        slots.add(ticket)
    gone = data.draw(st.sampled_from(tickets)) if len(tickets) > 1 else None
    if gone is not None:
        slots.remove(gone)
        tickets.remove(gone)
    assert slots.overload_s(now, backlog_s) == pytest.approx(worst_overload_s(tickets, 2.0, now, backlog_s), abs=1e-6)


@given(tickets_to_be)
def test_letting_the_least_dense_go_makes_the_rest_feasible(shapes):
    slots = DeadlineSlots(1.0, 0.0)
    kept = {number: a_ticket(number, *shape) for number, shape in enumerate(shapes)}
    for ticket in kept.values():
        slots.add(ticket)
    while kept and slots.overload_s(0.0, 0.0) > 1e-9:
        least = slots.least_dense(0.0, 0.0)
        assert least.number in kept
        slots.remove(kept.pop(least.number))
    assert not kept or worst_overload_s(list(kept.values()), 1.0, 0.0, 0.0) <= 1e-6


def test_of_the_overloaded_stretch_the_least_dense_goes_and_later_work_stays():
    slots = DeadlineSlots(1.0, 0.0)
    dense, sparse = a_ticket(1, 1.0, 0.8, density=5.0), a_ticket(2, 1.0, 0.8, density=2.0)
    later = a_ticket(3, 30.0, 0.5, density=0.1)
    for ticket in (dense, sparse, later):
        slots.add(ticket)
    assert slots.least_dense(0.0, 0.0) is sparse


def test_work_stays_in_the_plan_as_its_slots_move_on():
    slots = DeadlineSlots(1.0, 0.0)
    slots.add(a_ticket(1, 50.0, 2.0))
    slots.advance(SLOTS * SLOT_S * 0.6)
    assert len(slots) == 1
    assert slots.overload_s(49.0, 0.0) == pytest.approx(1.0, abs=2 * SLOT_S)


def test_an_empty_plan_is_never_overloaded():
    slots = DeadlineSlots(1.0, 0.0)
    slots.add(a_ticket(1, 1.0, 1.0))
    slots.remove(next(iter(slots._tickets.values())))
    assert slots.overload_s(100.0, 50.0) == -float("inf")

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.scheduling.interface import Request
from workers.scheduling.planning.backlog import FIRST_S, STEP, Backlog
from workers.scheduling.planning.slots import SLOT_S, SLOTS, DeadlineSlots
from workers.scheduling.ticket import Ticket

pytestmark = pytest.mark.unit


def a_ticket(number, finish_by, work_s, density=1.0):
    request = Request(request_id=number, version_id="v", tenant_id="t", rank=0, max_queued_of_tenant=9, arrived_at=0.0)
    ticket = Ticket(request, number)
    ticket.finish_by, ticket.prefill_s, ticket.density = finish_by, work_s, density
    return ticket


def a_backlog(*ahead_s, now=0.0):
    return Backlog(dict(enumerate(SimpleNamespace(prefill_until=now + seconds) for seconds in ahead_s)), now)


NONE = a_backlog()


def worst_overload_s(tickets, capacity, ahead_s=()):
    """By the definition: for every deadline, what is due by then and cannot be done by then, from time 0."""
    worst = -float("inf")
    for ticket in tickets:
        slot = min(SLOTS - 1, int(ticket.finish_by / SLOT_S))
        due = sum(t.prefill_s for t in tickets if min(SLOTS - 1, int(t.finish_by / SLOT_S)) <= slot)
        until_s = (slot + 1) * SLOT_S
        worst = max(worst, due + sum(min(until_s, seconds) for seconds in ahead_s) - capacity * until_s)
    return worst


tickets_to_be = st.lists(
    st.tuples(st.floats(0.0, 60.0), st.floats(0.01, 3.0), st.floats(0.1, 10.0)), min_size=1, max_size=25
)


ahead_to_be = st.lists(st.floats(0.01, 20.0), max_size=3)


def plan_of(shapes, capacity):
    slots = DeadlineSlots(capacity, 0.0)
    tickets = {number: a_ticket(number, *shape) for number, shape in enumerate(shapes)}
    for ticket in tickets.values():
        slots.add(ticket)
    return slots, tickets


@given(tickets_to_be, st.data())
def test_without_backlog_the_verdict_is_that_of_the_definition(shapes, data):
    slots, tickets = plan_of(shapes, 2.0)
    if len(tickets) > 1:
        slots.remove(tickets.pop(data.draw(st.sampled_from(sorted(tickets)))))
    worst = worst_overload_s(list(tickets.values()), 2.0)
    if abs(worst) > 1e-6:
        assert (slots.overloaded_by(0.0, NONE, 0.0) is not None) == (worst > 0)


@given(tickets_to_be, ahead_to_be)
def test_what_is_called_overloaded_is_so_with_the_backlog_of_each_engine(shapes, ahead_s):
    slots, tickets = plan_of(shapes, 3.0)
    if slots.overloaded_by(0.0, a_backlog(*ahead_s), 0.0) is not None:
        assert worst_overload_s(list(tickets.values()), 3.0, ahead_s) > -1e-6


@given(tickets_to_be, ahead_to_be)
def test_what_is_missed_is_less_than_a_step_of_the_stretches(shapes, ahead_s):
    slots, tickets = plan_of(shapes, 3.0)
    backlog = a_backlog(*ahead_s)
    if slots.overloaded_by(0.0, backlog, 0.0) is None:
        missed_s = worst_overload_s(list(tickets.values()), 3.0, ahead_s)
        assert missed_s <= max(FIRST_S, (1 - 1 / STEP) * max([*ahead_s, 0.0])) * len(ahead_s) + 1e-6


@given(tickets_to_be)
def test_letting_the_least_dense_go_makes_the_rest_feasible(shapes):
    slots, kept = plan_of(shapes, 1.0)
    while (least := slots.overloaded_by(0.0, NONE, 1e-9)) is not None:
        slots.remove(kept.pop(least.number))
    assert not kept or worst_overload_s(list(kept.values()), 1.0) <= 1e-6


def test_an_engine_that_is_busy_for_long_leaves_the_others_to_the_urgent():
    slots = DeadlineSlots(4.0, 0.0)
    for number in range(10):
        slots.add(a_ticket(number, 2.0, 0.1))
    assert slots.overloaded_by(0.0, a_backlog(0.2, 1.3, 2.9, 8.2), 0.1) is None
    assert slots.overloaded_by(0.0, a_backlog(2.0, 2.0, 2.9, 8.2), 0.1) is not None


def test_of_the_overloaded_stretch_the_least_dense_goes_and_later_work_stays():
    slots = DeadlineSlots(1.0, 0.0)
    dense, sparse = a_ticket(1, 1.0, 0.8, density=5.0), a_ticket(2, 1.0, 0.8, density=2.0)
    later = a_ticket(3, 30.0, 0.5, density=0.1)
    for ticket in (dense, sparse, later):
        slots.add(ticket)
    assert slots.overloaded_by(0.0, NONE, 0.0) is sparse


def test_work_stays_in_the_plan_as_its_slots_move_on():
    slots = DeadlineSlots(1.0, 0.0)
    slots.add(a_ticket(1, 50.0, 2.0))
    slots.advance(SLOTS * SLOT_S * 0.6)
    assert len(slots) == 1
    assert slots.overloaded_by(49.0, NONE, 0.9) is not None
    assert slots.overloaded_by(49.0, NONE, 1.1) is None


def test_an_empty_plan_is_never_overloaded():
    slots = DeadlineSlots(1.0, 0.0)
    slots.add(a_ticket(1, 1.0, 1.0))
    slots.remove(next(iter(slots._tickets.values())))
    assert slots.overloaded_by(100.0, a_backlog(50.0, now=100.0), 0.0) is None

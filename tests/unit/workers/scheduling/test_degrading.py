"""A request may name cheaper versions that it may run on when its own cannot make it."""

import pytest

from tests.unit.workers.scheduling.bench import Bench
from workers.scheduling import degradable
from workers.scheduling.interface import Dispatch, Request
from workers.scheduling.ticket import Ticket

pytestmark = pytest.mark.unit


def a_bench(**config):
    bench = Bench(**config)
    bench.endpoint("large", version="v1", slots=1)
    bench.endpoint("small", version="v2")
    bench.endpoint("tiny", version="v3")
    return bench


def arrive(bench, **more):
    return bench.arrive(version="v1", alternatives=("v2", "v3"), **more)


def test_it_runs_on_its_own_version_while_that_can_make_it():
    bench = a_bench()
    assert bench.sent[arrive(bench, ttft_slo_s=1.0)] == "large"


def test_it_waits_for_its_own_version_while_that_can_be_in_time():
    bench = a_bench()
    arrive(bench)
    assert arrive(bench, ttft_slo_s=10.0) not in bench.sent


def test_what_cannot_be_in_time_runs_on_the_first_alternative_and_the_driver_is_told_which():
    bench = a_bench()
    arrive(bench)
    late = arrive(bench, prompt_tokens=100_000, ttft_slo_s=0.5)
    assert bench.sent[late] == "small"
    decision = bench.scheduler.take_decisions()[-1]
    assert (decision.request_id, decision.version_id) == (late, "v2")


def test_what_gives_way_to_a_newcomer_is_degraded_too():
    bench = Bench()
    bench.endpoint("large", version="v1")
    bench.endpoint("small", version="v2")
    numbers = [arrive(bench, prompt_tokens=20_000, ttft_slo_s=2.0) for _ in range(30)]
    bench.after(0.5)
    waited = [number for number in numbers[:-1] if bench.sent.get(number) == "small"]
    assert waited
    assert bench.scheduler.queued_total() == len(bench.scheduler._queues._degradable)


def test_the_command_names_the_version():
    bench = a_bench()
    bench.note(bench.scheduler.drain_started("large", bench.now))
    bench.number += 1
    commands = bench.scheduler.request_arrived(_request(bench.number, bench.now), bench.now)
    assert commands == [Dispatch(bench.number, "small", "v2")]


def test_an_alternative_that_is_busy_is_passed_over():
    bench = a_bench()
    bench.note(bench.scheduler.drain_started("small", bench.now))
    bench.note(bench.scheduler.drain_started("large", bench.now))
    assert bench.sent[arrive(bench)] == "tiny"


def test_without_an_alternative_that_has_room_it_waits_where_it_was():
    bench = a_bench()
    for name in ("large", "small", "tiny"):
        bench.note(bench.scheduler.drain_started(name, bench.now))
    number = arrive(bench)
    assert number not in bench.sent
    bench.endpoint("large", version="v1", slots=1)
    assert bench.sent[number] == "large"


def test_an_alternative_comes_before_a_refusal():
    bench = a_bench(patience_s=5.0)
    bench.note(bench.scheduler.drain_started("large", bench.now))
    bench.note(bench.scheduler.drain_started("small", bench.now))
    bench.note(bench.scheduler.drain_started("tiny", bench.now))
    number = arrive(bench)
    bench.endpoint("tiny", version="v3")
    bench.after(6.0, step=1.0)
    assert bench.rejects == {}
    assert bench.sent[number] == "tiny"


def test_the_accounts_of_both_versions_balance():
    bench = a_bench()
    bench.note(bench.scheduler.drain_started("large", bench.now))
    numbers = [arrive(bench) for _ in range(5)]
    assert {bench.sent[number] for number in numbers} == {"small"}
    for number in numbers:
        bench.finish(number)
    assert bench.scheduler.running_total() == bench.scheduler.queued_total() == 0
    assert not bench.scheduler._queues.pools["v1"].waiting


def _request(number, now):
    return Request(
        request_id=number, version_id="v1", tenant_id="t", rank=0, max_queued_of_tenant=9, arrived_at=now,
        alternatives=("v2",),
    )  # fmt: skip


def test_an_answer_that_has_begun_is_never_continued_by_another_version():
    bench = a_bench(patience_s=5.0)
    number = arrive(bench)
    bench.first_token(number)
    bench.note(bench.scheduler.drain_started("large", bench.now))
    bench.fail(number, generated_tokens=5)
    bench.after(6.0, step=1.0)
    assert bench.sent[number] == "large"
    assert bench.rejects[number].code == "no_endpoint"


def test_a_queue_that_is_full_sends_to_an_alternative_before_it_refuses():
    bench = Bench()
    bench.endpoint(slots=1)
    bench.endpoint("e2", version="v2")
    bench.arrive()
    bench.arrive(max_queued_of_tenant=1)
    number = bench.arrive(max_queued_of_tenant=1, alternatives=("v2",))
    assert bench.sent[number] == "e2"
    assert not bench.rejects


def test_with_thousands_that_wait_only_some_are_looked_at_each_time(monkeypatch):
    monkeypatch.setattr(degradable, "LOOKED_AT", 3)
    waiting = degradable.Degradable()
    values = {"version_id": "v", "tenant_id": "t", "rank": 0, "max_queued_of_tenant": 9, "arrived_at": 0.0}
    tickets = [Ticket(Request(request_id=n, alternatives=("cheap",), **values), n) for n in range(5)]
    for ticket in tickets:
        waiting.add(ticket)
    assert waiting.next_of(("cheap",)) == tickets[:3]
    assert waiting.next_of(("cheap",)) == [*tickets[3:], tickets[0]]
    for ticket in tickets:
        waiting.remove(ticket)
    waiting.remove(tickets[0])
    assert (len(waiting), waiting.alternatives()) == (0, [])


def test_who_comes_from_another_version_waits_for_endpoints_that_were_there_when_it_came():
    """It may have waited for longer than anybody waits for endpoints, and no tick may have seen these."""
    bench = Bench(patience_s=5.0, max_queued_requests=2)
    bench.endpoint("large", version="v1", slots=1)
    bench.endpoint("small", version="v2", warmth="loading")
    arrive(bench)
    arrive(bench)
    moved = arrive(bench, prompt_tokens=50_000, ttft_slo_s=9.0, rank=2)
    bench.after(8.0, step=0.25)
    bench.endpoint("small", version="v2")
    bench.arrive(version="v2", prompt_tokens=1000)
    bench.arrive(version="v1", tenant="t2")  # the queues are full: the lowest of who has most gives way
    ticket = bench.scheduler._queues.tickets[moved]
    assert (ticket.version_id, ticket.endpoint) == ("v2", None)
    bench.note(bench.scheduler.drain_started("small", bench.now))
    bench.after(4.0, step=0.25)
    assert moved not in bench.rejects
    bench.after(2.0, step=0.25)
    assert bench.rejects[moved].code == "no_endpoint"

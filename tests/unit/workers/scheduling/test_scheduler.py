import pytest
from msgspec import structs

from workers.scheduling.endpoint_spec import DEFAULT_SPEC
from workers.scheduling.interface import Cancel, Dispatch, Migrate, Reject, Request, SchedulerConfig
from workers.scheduling.scheduler import Scheduler

pytestmark = pytest.mark.unit

KNOWN = structs.replace(DEFAULT_SPEC, is_speed_known=True)


class Bench:
    """A scheduler with short ways to say what happens."""

    def __init__(self, **config):
        self.scheduler = Scheduler(SchedulerConfig(**config))
        self.now = 100.0

    def endpoint(self, name="e1", *, slots=1, version="v1", draining=False, spec=DEFAULT_SPEC, **more):
        return self.scheduler.endpoint_updated(name, version, slots, self.now, is_draining=draining, spec=spec, **more)

    def arrive(self, number, *, tenant="t1", rank=0, version="v1", bound=1000):
        request = Request(
            request_id=number,
            version_id=version,
            tenant_id=tenant,
            rank=rank,
            max_queued_of_tenant=bound,
            arrived_at=self.now,
        )
        return self.scheduler.request_arrived(request, self.now)

    def finish(self, number):
        return self.scheduler.request_finished(number, self.now)

    def fail(self, number, *, may_retry=True):
        return self.scheduler.request_failed(number, self.now, may_retry=may_retry)

    def after(self, seconds):
        self.now += seconds
        return self.scheduler.tick(self.now)


def test_a_request_runs_at_once_where_there_is_room():
    bench = Bench()
    bench.endpoint()
    assert bench.arrive(1) == [Dispatch(1, "e1")]


def test_a_request_waits_for_a_slot_and_gets_the_next_one():
    bench = Bench()
    bench.endpoint()
    bench.arrive(1)
    assert bench.arrive(2) == []
    assert bench.finish(1) == [Dispatch(2, "e1")]


def test_a_higher_class_is_served_before_a_lower_one_that_came_first():
    bench = Bench()
    bench.endpoint()
    bench.arrive(1)
    bench.arrive(2, tenant="batch", rank=2)
    bench.arrive(3, tenant="gold", rank=0)
    assert bench.finish(1) == [Dispatch(3, "e1")]
    assert bench.finish(3) == [Dispatch(2, "e1")]


def test_within_a_tenant_the_first_to_come_is_the_first_served():
    bench = Bench()
    bench.endpoint()
    for number in (1, 2, 3, 4):
        bench.arrive(number)
    served = [bench.finish(number)[0].request_id for number in (1, 2, 3)]
    assert served == [2, 3, 4]


def test_a_flooding_tenant_takes_turns_with_the_others_of_its_class():
    bench = Bench()
    bench.endpoint()
    for number in range(1, 7):
        bench.arrive(number, tenant="flood")
    bench.arrive(7, tenant="quiet")
    assert bench.finish(1) == [Dispatch(2, "e1")]
    assert bench.finish(2) == [Dispatch(7, "e1")]


def test_requests_spread_over_endpoints_by_their_share_of_slots_in_use():
    bench = Bench()
    bench.endpoint("small", slots=2)
    bench.endpoint("large", slots=6)
    sent = [bench.arrive(number)[0].endpoint_id for number in range(8)]
    assert sent.count("small") == 2
    assert sent.count("large") == 6


def test_a_burst_spreads_within_one_over_equal_endpoints():
    bench = Bench()
    for name in "abcdefgh":
        bench.endpoint(name, slots=200)
    sent = [bench.arrive(number)[0].endpoint_id for number in range(800)]
    assert {sent.count(name) for name in "abcdefgh"} == {100}


def test_nothing_new_is_sent_to_a_draining_endpoint_and_what_runs_there_runs_on():
    bench = Bench()
    bench.endpoint(slots=2)
    bench.arrive(1)
    bench.endpoint(slots=2, draining=True)
    assert bench.arrive(2) == []
    assert bench.finish(1) == []
    assert bench.endpoint(slots=2, draining=False) == [Dispatch(2, "e1")]


def test_a_tenant_may_not_queue_more_than_its_bound():
    bench = Bench()
    bench.endpoint()
    bench.arrive(1)
    bench.arrive(2, bound=1)
    assert bench.arrive(3, bound=1) == [Reject(3, "queue_full", 1)]
    assert bench.arrive(4, tenant="other", bound=1) == []


def test_the_queue_as_a_whole_is_bounded():
    bench = Bench(max_queued_requests=2)
    bench.arrive(1)
    bench.arrive(2, tenant="other")
    assert bench.arrive(3, tenant="third") == [Reject(3, "queue_full", 1)]


def test_a_failed_request_runs_again_elsewhere():
    bench = Bench()
    bench.endpoint("e1")
    bench.arrive(1)
    bench.endpoint("e2")
    assert bench.fail(1) == [Dispatch(1, "e2")]


def test_a_failed_request_waits_out_the_suspension_of_the_only_endpoint():
    bench = Bench(suspend_s=0.5)
    bench.endpoint()
    bench.arrive(1)
    assert bench.fail(1) == []
    assert bench.after(0.4) == []
    assert bench.after(0.2) == [Dispatch(1, "e1")]


def test_a_request_that_keeps_failing_is_given_up():
    bench = Bench(max_attempts=2)
    bench.endpoint()
    bench.arrive(1)
    bench.fail(1)
    assert bench.after(60) == [Dispatch(1, "e1")]
    assert bench.fail(1) == [Reject(1, "attempts_exhausted")]


def test_a_failed_request_keeps_its_place_in_the_queue():
    bench = Bench()
    bench.endpoint()
    bench.arrive(1)
    bench.arrive(2)
    bench.fail(1)
    assert bench.after(60) == [Dispatch(1, "e1")]


def test_a_request_that_has_begun_to_answer_is_not_run_again():
    bench = Bench()
    bench.endpoint()
    bench.endpoint("e2")
    bench.arrive(1)
    assert bench.fail(1, may_retry=False) == []
    assert bench.scheduler.running_total() == 0


def test_suspensions_grow_with_failures_in_a_row_and_end_with_a_success():
    bench = Bench(suspend_s=1, max_attempts=10)
    bench.endpoint()
    bench.arrive(1)
    bench.fail(1)
    bench.after(1.1)
    bench.fail(1)
    assert bench.after(1.1) == []
    assert bench.after(1.1) == [Dispatch(1, "e1")]
    bench.finish(1)
    bench.arrive(2)
    bench.fail(2)
    assert bench.after(1.1) == [Dispatch(2, "e1")]


def test_a_request_for_a_version_without_endpoints_waits_and_is_then_refused():
    bench = Bench(patience_s=15)
    assert bench.arrive(1) == []
    assert bench.after(14) == []
    assert bench.after(2) == [Reject(1, "no_endpoint", 15)]
    assert bench.scheduler.queued_total() == 0


def test_a_long_wait_behind_a_busy_endpoint_is_no_reason_to_refuse():
    bench = Bench(patience_s=15)
    bench.endpoint()
    bench.arrive(1)
    bench.arrive(2)
    assert bench.after(250) == []


def test_a_client_that_leaves_the_queue_leaves_no_trace():
    bench = Bench()
    bench.endpoint()
    bench.arrive(1)
    bench.arrive(2)
    assert bench.scheduler.request_withdrawn(2, bench.now) == []
    assert bench.scheduler.queued_total() == 0
    assert bench.finish(1) == []


def test_a_client_that_leaves_a_running_request_frees_its_slot():
    bench = Bench()
    bench.endpoint()
    bench.arrive(1)
    bench.arrive(2)
    assert bench.scheduler.request_withdrawn(1, bench.now) == [Dispatch(2, "e1")]


def test_a_request_on_a_lost_endpoint_still_ends_in_order():
    bench = Bench()
    bench.endpoint("e1")
    bench.arrive(1)
    bench.scheduler.endpoint_lost("e1", bench.now)
    assert bench.finish(1) == []
    assert bench.scheduler.running_total() == 0


def test_versions_do_not_share_slots():
    bench = Bench()
    bench.endpoint("e1", version="v1")
    bench.endpoint("e2", version="v2")
    assert bench.arrive(1, version="v2") == [Dispatch(1, "e2")]
    assert bench.arrive(2, version="v2") == []


def test_the_queue_is_reported_by_class():
    bench = Bench()
    bench.arrive(1, rank=0)
    bench.arrive(2, rank=2, tenant="b")
    bench.arrive(3, rank=2, tenant="b")
    assert bench.scheduler.queued_by_rank() == {0: 1, 2: 2}


def test_a_draining_endpoint_gets_nothing_new():
    bench = Bench()
    bench.endpoint(slots=2)
    bench.arrive(1)
    bench.scheduler.drain_started("e1", bench.now)
    assert bench.arrive(2) == []


def test_a_stream_that_broke_is_continued_elsewhere():
    bench = Bench()
    bench.endpoint("e1")
    bench.arrive(1)
    bench.endpoint("e2")
    bench.scheduler.first_token(1, bench.now)
    commands = bench.scheduler.request_failed(1, bench.now, may_retry=True, generated_tokens=12)
    assert commands == [Migrate(1, "e2")]


def with_slo(number, bench, *, ttft_slo_s=None, deadline_at=None, workflow="", prompt_tokens=1000, rank=0):
    request = Request(
        request_id=number, version_id="v1", tenant_id="t1", rank=rank, max_queued_of_tenant=10_000,
        arrived_at=bench.now, prompt_tokens=prompt_tokens, predicted_output_tokens=50.0, ttft_slo_s=ttft_slo_s,
        deadline_at=deadline_at, workflow_id=workflow,
    )  # fmt: skip
    return bench.scheduler.request_arrived(request, bench.now)


def test_late_work_still_runs_while_the_fleet_has_nothing_better_to_do():
    bench = Bench()
    assert with_slo(1, bench, ttft_slo_s=0.001, prompt_tokens=100_000) == []
    assert bench.endpoint() == [Dispatch(1, "e1")]


def test_hopeless_work_is_refused_under_overload_with_a_time_to_come_back():
    bench = Bench(max_queued_requests=100_000)
    bench.endpoint(slots=1000, spec=KNOWN)
    rejects = []
    for number in range(1, 2001):
        commands = with_slo(number, bench, ttft_slo_s=0.5, prompt_tokens=20_000)
        rejects += [command for command in commands if isinstance(command, Reject)]
        if number % 20 == 0:
            rejects += [command for command in bench.after(0.1) if isinstance(command, Reject)]
    assert len(rejects) > 500
    assert {reject.code for reject in rejects} == {"cannot_meet_deadline"}
    assert all(1 <= reject.retry_after_s <= 60 for reject in rejects)
    assert max(reject.retry_after_s for reject in rejects) > 1


def test_calls_of_a_workflow_past_its_deadline_are_cancelled_and_refused():
    bench = Bench()
    bench.endpoint()
    with_slo(1, bench, deadline_at=bench.now + 5, workflow="w")
    with_slo(2, bench, deadline_at=bench.now + 5, workflow="w")
    commands = bench.after(6)
    assert Cancel(1, "workflow_deadline") in commands
    assert [command.request_id for command in commands if isinstance(command, Reject)] == [2]


def test_every_dispatch_and_refusal_can_be_explained():
    bench = Bench()
    bench.endpoint("e1")
    bench.endpoint("full", slots=1)
    bench.arrive(1)
    bench.arrive(2)
    bench.arrive(3, bound=0)
    decisions = bench.scheduler.take_decisions()
    assert [(decision.request_id, decision.outcome) for decision in decisions] == [
        (1, "sent"),
        (2, "sent"),
        (3, "refused"),
    ]
    assert [(c.endpoint_id, c.reason) for c in decisions[1].considered] == [("full", "")]
    assert decisions[0].considered[0].score is not None
    assert bench.scheduler.take_decisions() == []


def test_decisions_that_nobody_takes_are_bounded():
    bench = Bench(max_decisions=10)
    bench.endpoint(slots=1000)
    for number in range(1, 50):
        bench.arrive(number)
    assert [decision.request_id for decision in bench.scheduler.take_decisions()] == list(range(40, 50))


def test_what_came_too_late_is_not_passed_over_for_ever_by_what_is_in_time():
    """Nor does it push in: one of them goes, and the next a good while later."""
    bench = Bench()
    bench.endpoint(spec=KNOWN)
    late = (2, 3)

    def ask(number):
        request = Request(
            request_id=number, version_id="v1", tenant_id="t1", rank=0, max_queued_of_tenant=1000,
            arrived_at=bench.now, ttft_slo_s=0.5,
        )  # fmt: skip
        return bench.scheduler.request_arrived(request, bench.now)

    ask(1)
    for number in late:
        ask(number)
    bench.after(0.6)
    running, order = 1, []
    for newcomer in range(4, 500):
        ask(newcomer)
        sent = [command.request_id for command in bench.finish(running)]
        order += sent
        if set(late) <= set(order):
            break
        running = sent[0]
        bench.after(0.3)

    assert order.index(3) - order.index(2) > 64

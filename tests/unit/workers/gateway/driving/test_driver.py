import pytest

from workers.contracts.endpoints import Endpoint, EngineShape
from workers.contracts.settlement import Used
from workers.contracts.snapshot import Price, TenantPolicy, Version
from workers.engines.interface import EngineReading
from workers.gateway.attempts.degrading import Alternative
from workers.gateway.driving.driver import Driver
from workers.gateway.driving.estimates import Prompt
from workers.gateway.driving.terms import Terms
from workers.gateway.driving.workflows import Asked
from workers.gateway.http.turns import Turn
from workers.scheduling.endpoint import DEFAULT_SPEC
from workers.scheduling.interface import Request, SchedulerConfig
from workers.scheduling.scheduler import Scheduler

pytestmark = pytest.mark.unit

TEXT = Prompt(100, text_bytes=400)
TENANT = TenantPolicy(tenant_id="t", name="t", service_class="gold", slo_profile="p")
UNKNOWN = EngineShape()
EPOCH = 1e9
KNOWN = EngineShape(cost_profile="llama3-8b/h100/tp1")


class Asker:
    """A request's owner that notes what it is told."""

    def __init__(self):
        self.told = []

    def dispatched(self, engine):
        self.told.append(engine.endpoint.endpoint_id)

    def refused(self, reject):
        self.told.append(reject.code)
        self.retry_after_s = reject.retry_after_s

    def cancelled(self, cancel):
        self.told.append(cancel.reason)

    def engine_stalled(self):
        self.told.append("stalled")

    def stranded(self):
        self.told.append("stranded")


class Yard:
    """A driver with a clock to turn and timers to look at."""

    def __init__(self):
        self.now = 0.0
        self.timers = []
        turn = Turn(spool=None, call_soon=lambda _end: None, monotonic=lambda: 0.0)
        self.driver = Driver(
            Scheduler(SchedulerConfig()), lambda: self.now, turn, lambda: self.now + EPOCH, self._call_later
        )

    def _call_later(self, delay_s, work):
        timer = _Timer(self.now + delay_s, work)
        self.timers.append(timer)
        return timer

    def offer(self, *names, slots=4, shape=UNKNOWN):
        self.driver.set_endpoints(
            [
                Endpoint(
                    endpoint_id=name, version_id="v", base_url="http://h:1", max_running_requests=slots, shape=shape
                )
                for name in names
            ]
        )

    def ask(self, label="r", *, workflow=None, offered=(), prompt=TEXT, **fields):
        request = Request(
            request_id=0,
            version_id="v",
            tenant_id="t",
            rank=0,
            max_queued_of_tenant=9,
            arrived_at=self.now,
            prompt_tokens=100,
            **fields,
        )
        if workflow is not None:
            self.driver.workflows.join(request, workflow)
        owner = Asker()
        owner.terms = Terms(request, TENANT, Price(output_pico_usd=1), "v", prompt=prompt, alternatives=offered)
        owner.number = self.driver.submit(owner, owner.terms, label)
        return owner

    def steps(self, label="r"):
        return [what for what, _, _ in self.driver.trails.find(label).steps]


class _Timer:
    def __init__(self, at, work):
        self.at, self.work, self.is_cancelled = at, work, False

    def cancel(self):
        self.is_cancelled = True


@pytest.fixture
def yard():
    return Yard()


def used(output=10, *, input_tokens=100, source="engine"):
    return Used(source=source, input_tokens=input_tokens, output_tokens=output)


def test_every_step_of_a_request_is_kept_with_its_time(yard):
    yard.offer("e")
    asker = yard.ask()
    yard.now = 1.0
    yard.driver.first_token(asker.number)
    yard.now = 2.0
    yard.driver.finished(asker.number, used())
    trail = yard.driver.trails.find("r")
    assert trail.steps == [
        ("arrived", 0.0, ""),
        ("sent", 0.0, "e"),
        ("first_token", 1.0, ""),
        ("completed", 2.0, ""),
    ]
    assert trail.is_over
    assert [draft.endpoint_id for draft in trail.drafts] == ["e"]
    assert [ended.label for ended in yard.driver.trails.take_ended()] == ["r"]


def test_one_that_waits_and_one_that_is_refused_say_so(yard):
    yard.offer("e", slots=1)
    first, _ = yard.ask("first"), yard.ask("second")
    assert yard.steps("second") == ["arrived", "queued"]
    yard.driver.finished(first.number)
    assert yard.steps("second") == ["arrived", "queued", "sent"]


def test_a_failed_attempt_is_a_step(yard):
    yard.offer("a", "b")
    asker = yard.ask()
    yard.driver.failed(asker.number, may_retry=True)
    assert yard.steps() == ["arrived", "sent", "failed", "sent"]
    assert len(set(asker.told)) == 2


def test_an_engine_that_asks_for_a_pause_gets_one_and_is_no_worse_for_it(yard):
    yard.offer("e")
    asker = yard.ask("first")
    yard.driver.failed(asker.number, may_retry=False, retry_after_s=7.0)
    [state] = yard.driver.scheduler.endpoint_states(yard.now)
    assert state.breaker == "paused"
    yard.ask("second")
    yard.now = 6.0
    yard.driver.tick()
    assert yard.steps("second") == ["arrived", "queued"]
    yard.now = 7.1
    yard.driver.tick()
    assert yard.steps("second")[-1] == "sent"


def offer_one_that_loads(yard, ready_at=None, warmth="loading"):
    yard.driver.set_endpoints(
        [Endpoint(endpoint_id="e", version_id="v", base_url="http://h:1", warmth=warmth, ready_at=ready_at)]
    )


def test_an_engine_that_loads_is_known_and_sent_nothing_until_it_is_warm(yard):
    offer_one_that_loads(yard)
    asker = yard.ask()
    assert (asker.told, yard.driver.engines, yard.driver.serves("v")) == ([], [], False)
    [state] = yard.driver.scheduler.endpoint_states(0.0)
    assert state.warmth == "loading"
    yard.offer("e")
    assert (asker.told, yard.driver.serves("v")) == (["e"], True)


def test_who_is_refused_while_an_engine_loads_is_told_when_it_will_be_there(yard):
    offer_one_that_loads(yard, ready_at=EPOCH + 47)
    asker = yard.ask()
    for second in range(1, 40):
        yard.now = float(second)
        yard.driver.tick()
        if asker.told:
            break
    assert asker.told == ["no_endpoint"]
    assert asker.retry_after_s == 47 - second


def test_the_timer_is_set_for_when_the_scheduler_wants_to_be_asked(yard):
    yard.offer("e", slots=1)
    yard.ask("first")
    [watchful] = yard.timers
    yard.ask("second")
    [_, timer] = yard.timers
    assert watchful.is_cancelled
    assert timer.at <= 0.021 < watchful.at
    yard.now = timer.at
    timer.work()
    assert yard.timers[-1].at > timer.at


def test_a_tick_from_elsewhere_leaves_one_timer_running(yard):
    yard.offer("e", slots=1)
    yard.ask("first")
    yard.ask("second")
    for _ in range(20):
        yard.now += 0.25
        yard.driver.tick()
    assert len([timer for timer in yard.timers if not timer.is_cancelled]) == 1


def test_lengths_and_prompts_are_learned_from_what_the_engine_counted(yard):
    yard.offer("e")
    for _ in range(40):
        asker = yard.ask()
        yard.driver.finished(asker.number, used(output=700, input_tokens=200))
    assert yard.driver.estimates.output_tokens("t", "v", None) == pytest.approx(700, rel=0.15)
    assert yard.driver.estimates.prompts["v"].expect(400) == pytest.approx(200, rel=0.15)


def test_an_estimate_of_ours_teaches_nothing(yard):
    yard.offer("e")
    for _ in range(20):
        yard.driver.finished(yard.ask().number, used(output=700, source="estimated"))
    assert not yard.driver.estimates.lengths


def test_an_engine_has_its_gpus_speed_or_an_unknown_one(yard):
    yard.offer("e", shape=EngineShape(cost_profile="llama3-8b/h100/tp1", time_scale=2.0, max_batched_tokens=4096))
    spec = yard.driver.scheduler._endpoints["e"].spec
    assert (spec.is_speed_known, spec.max_batched_tokens, spec.max_sequences) == (True, 4096, 4)
    assert spec.cost.step_s(1, 1, 0.0, 0.0) == pytest.approx(2 * DEFAULT_SPEC.cost.step_s(1, 1, 0.0, 0.0))
    yard.offer("other")
    assert not yard.driver.scheduler._endpoints["other"].spec.is_speed_known


def test_what_runs_on_an_engine_that_hangs_is_moved_and_what_streams_is_left(yard):
    yard.offer("e", slots=2, shape=KNOWN)
    stuck, streaming = yard.ask("stuck"), yard.ask("streaming")
    yard.driver.first_token(streaming.number)
    [engine] = yard.driver.engines
    for second in range(0, 100, 10):
        yard.now = float(second)
        yard.driver.reported(engine, EngineReading(kv_used_ratio=0.1, steps_total=7), yard.now)
    assert (stuck.told, streaming.told) == (["e", "stalled"], ["e"])


def test_what_is_known_of_an_engine_outlives_a_change_of_its_offer(yard):
    yard.offer("e", slots=4)
    [before] = yard.driver.engines
    yard.offer("e", slots=8)
    assert yard.driver.engines == [before]
    assert before.endpoint.max_running_requests == 8


def test_the_cache_that_an_engine_reports_is_what_the_scheduler_reckons_with(yard):
    yard.offer("e", shape=KNOWN)
    [engine] = yard.driver.engines
    yard.driver.reported(engine, EngineReading(kv_used_ratio=0.5, kv_capacity_tokens=1000), 0.0)
    model = yard.driver.scheduler._endpoints["e"]
    assert model.kv_capacity == 1000
    assert model.kv_used(0.1) == 500


def test_an_engine_that_tells_no_cache_use_is_judged_by_own_counts(yard):
    yard.offer("e")
    yard.ask()
    [engine] = yard.driver.engines
    yard.driver.reported(engine, EngineReading(running_requests=0), 0.0)
    assert yard.driver.scheduler._endpoints["e"].kv_used(0.1) > 0


def test_a_workflow_that_has_used_up_its_tokens_is_ended_everywhere(yard):
    yard.offer("e", slots=2)
    budget = Asked(workflow_id="w", token_budget=50)
    first, second, third = (yard.ask(name, workflow=budget) for name in "abc")
    yard.driver.finished(first.number, used(output=60, input_tokens=0))
    assert second.told == ["e", "workflow_budget"]
    assert third.told[-1] == "workflow_budget"
    assert "cancelled" in yard.steps("b")


def test_what_is_ended_for_a_budget_is_told_once_as_its_engine_may_still_be_heard_out(yard):
    yard.offer("e", slots=3)
    budget = Asked(workflow_id="w", token_budget=50)
    first, second, third = (yard.ask(name, workflow=budget) for name in "abc")
    yard.driver.finished(first.number, used(output=60, input_tokens=0))
    yard.driver.failed(second.number, may_retry=False, used=used(output=5))
    yard.driver.note_elsewhere({}, {"t/w": (100, 0)})
    assert third.told == ["e", "workflow_budget"]
    assert yard.steps("c").count("cancelled") == 1


def offer_two_versions(yard):
    yard.driver.set_endpoints(
        [
            Endpoint(endpoint_id=f"on-{version}", version_id=version, base_url="http://h:1", is_draining=version == "v")
            for version in ("v", "small")
        ]
    )


def test_a_request_that_its_own_version_cannot_answer_is_degraded_with_a_step_that_says_so(yard):
    offer_two_versions(yard)
    version = Version(version_id="small", model="m", label="s", served_name="small")
    small = Alternative(version, Price(output_pico_usd=7))
    asker = yard.ask(alternatives=("small",), offered=(small,))
    trail = yard.driver.trails.find("r")
    assert asker.told == ["on-small"]
    assert ("degraded", 0.0, "m@s") in trail.steps
    assert trail.drafts[-1].decision().version_id == "small"
    assert (asker.terms.version_id, asker.terms.price.output_pico_usd) == ("small", 7)


def test_a_degraded_answer_teaches_how_long_those_of_its_version_are(yard):
    offer_two_versions(yard)
    small = Alternative(Version(version_id="small", model="m", label="s", served_name="small"), Price())
    yard.driver.finished(yard.ask(alternatives=("small",), offered=(small,)).number, used(output=700))
    assert ("t", "small") in yard.driver.estimates.lengths
    assert ("t", "v") not in yard.driver.estimates.lengths

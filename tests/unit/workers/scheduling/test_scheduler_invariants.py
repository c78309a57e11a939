"""Whatever happens in whatever order, the accounts balance and every request ends once."""

from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import structs

from workers.scheduling.endpoint_spec import DEFAULT_SPEC, Batching
from workers.scheduling.interface import (
    Cancel,
    Dispatch,
    EngineReport,
    KVChange,
    Migrate,
    Reject,
    Request,
    SchedulerConfig,
    Suspect,
)
from workers.scheduling.ordering.fair_queue import _is_kept
from workers.scheduling.scheduler import Scheduler
from workers.scheduling.ticket import State

pytestmark = pytest.mark.unit

ENDPOINTS = {"a1": "va", "a2": "va", "b1": "vb", "c1": "vc"}
SPECS = {
    "vc": structs.replace(DEFAULT_SPEC, batching=Batching(max_requests=3, max_tokens=6000, window_s=0.05)),
    "va": structs.replace(DEFAULT_SPEC, is_speed_known=True),
    "vb": DEFAULT_SPEC,
}


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.scheduler = Scheduler(SchedulerConfig(max_queued_requests=12, patience_s=5, max_attempts=3))
        self.now = 0.0
        self.next_id = 0
        self.requests: dict[int, Request] = {}
        self.waiting: dict[int, Request] = {}
        self.running: dict[int, str] = {}
        self.streaming: dict[int, None] = {}
        self.ended: dict[int, None] = {}
        self.known: dict[str, tuple[int, bool]] = {}
        self.lost_running: dict[int, None] = {}

    def apply(self, commands):
        for command in commands:
            if isinstance(command, Suspect):
                assert all(self.running[number] == command.endpoint_id for number in command.request_ids)
            elif isinstance(command, Cancel):
                assert command.request_id in self.running
            elif isinstance(command, Reject):
                del self.waiting[command.request_id]
                self.end(command.request_id)
            else:
                self.start(command)

    def start(self, command):
        request = self.waiting.pop(command.request_id)
        slots, is_draining = self.known[command.endpoint_id]
        assert not is_draining
        version_id = ENDPOINTS[command.endpoint_id]
        assert version_id in {request.version_id, *request.alternatives}
        assert getattr(command, "version_id", "") in {"", version_id}
        assert isinstance(command, Migrate if command.request_id in self.streaming else Dispatch)
        self.running[command.request_id] = command.endpoint_id
        here = [n for n, at in self.running.items() if at == command.endpoint_id and n not in self.lost_running]
        self.lost_running.pop(command.request_id, None)
        assert len(here) <= slots

    def end(self, number):
        assert number not in self.ended
        self.ended[number] = None
        self.streaming.pop(number, None)

    def draw_running(self, data):
        return data.draw(st.sampled_from(sorted(self.running)))

    @rule(
        tenant=st.sampled_from("xyz"),
        rank=st.integers(0, 2),
        version=st.sampled_from(["va", "vb", "vc", "nowhere"]),
        alternatives=st.sampled_from([(), (), ("vb",), ("vc", "va")]),
        budget=st.sampled_from([None, None, 6000]),
        prompt_tokens=st.sampled_from([0, 100, 5000, 300_000]),
        ttft_slo_s=st.sampled_from([None, 0.05, 2.0, 60.0]),
        deadline_s=st.sampled_from([None, None, 1.0, 50.0]),
        workflow=st.sampled_from(["", "", "w1", "w2"]),
        prefix=st.sampled_from([(), (1, 2, 3), (1, 2, 9, 10)]),
        told_blocks=st.sampled_from([None, 0, 2]),
    )
    def arrive(
        self, *, tenant, rank, version, alternatives, budget, prompt_tokens, ttft_slo_s, deadline_s, workflow, prefix,
        told_blocks,
    ):  # fmt: skip
        self.next_id += 1
        request = Request(
            request_id=self.next_id,
            version_id=version,
            tenant_id=tenant,
            rank=rank,
            max_queued_of_tenant=6,
            arrived_at=self.now,
            prompt_tokens=prompt_tokens,
            predicted_output_tokens=50.0,
            prefix_blocks=prefix if prompt_tokens else (),
            told_blocks=told_blocks,
            block_tokens=16,
            ttft_slo_s=ttft_slo_s,
            tpot_slo_s=0.05 if ttft_slo_s else None,
            deadline_at=None if deadline_s is None else self.now + deadline_s,
            workflow_id=workflow,
            alternatives=alternatives,
            workflow_tokens=budget,
            max_queued_tokens_of_tenant=400_000.0,
        )
        self.waiting[self.next_id] = self.requests[self.next_id] = request
        self.apply(self.scheduler.request_arrived(request, self.now))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def first_token(self, data):
        self.apply(self.scheduler.first_token(self.draw_running(data), self.now))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), output_tokens=st.integers(1, 5000))
    def progress(self, data, output_tokens):
        self.apply(self.scheduler.progress(self.draw_running(data), output_tokens, self.now))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), output_tokens=st.integers(0, 500))
    def finish(self, data, output_tokens):
        number = self.draw_running(data)
        del self.running[number]
        self.end(number)
        self.apply(self.scheduler.request_finished(number, self.now, output_tokens))

    @precondition(lambda self: self.running)
    @rule(
        data=st.data(),
        may_retry=st.booleans(),
        generated=st.sampled_from([0, 7]),
        retry_after_s=st.sampled_from([None, None, 3.0]),
    )
    def fail(self, data, may_retry, generated, retry_after_s):
        number = self.draw_running(data)
        del self.running[number]
        if may_retry:
            self.waiting[number] = self.requests[number]
            self.streaming.pop(number, None)
            if generated:
                self.streaming[number] = None
        else:
            self.end(number)
        self.apply(
            self.scheduler.request_failed(
                number, self.now, may_retry=may_retry, generated_tokens=generated, retry_after_s=retry_after_s
            )
        )

    @precondition(lambda self: self.running or self.waiting)
    @rule(data=st.data())
    def withdraw(self, data):
        number = data.draw(st.sampled_from(sorted([*self.running, *self.waiting])))
        self.running.pop(number, None)
        self.waiting.pop(number, None)
        self.end(number)
        self.apply(self.scheduler.request_withdrawn(number, self.now))

    @rule(
        name=st.sampled_from(sorted(ENDPOINTS)),
        slots=st.integers(1, 4),
        draining=st.booleans(),
        warmth=st.sampled_from(["warm", "warm", "warm", "cold", "loading"]),
        ready_in_s=st.sampled_from([None, 2.0]),
    )
    def update(self, name, slots, draining, warmth, ready_in_s):
        busy = list(self.running.values()).count(name)
        self.known[name] = (max(slots, busy), draining)
        version_id = ENDPOINTS[name]
        self.apply(
            self.scheduler.endpoint_updated(
                name, version_id, max(slots, busy), self.now, is_draining=draining, spec=SPECS[version_id],
                warmth=warmth, ready_in_s=ready_in_s,
            )
        )  # fmt: skip

    @precondition(lambda self: self.known)
    @rule(
        data=st.data(),
        change=st.sampled_from([
            KVChange(stored=(1, 2, 9, 10)), KVChange(removed=(2,)), KVChange(stored=(2, 3), parent=1),
            KVChange(is_cleared=True), KVChange(is_last=True),
        ]),
    )  # fmt: skip
    def change_prefixes(self, data, change):
        name = data.draw(st.sampled_from(sorted(self.known)))
        self.apply(self.scheduler.prefixes_changed(name, [change], self.now))

    @precondition(lambda self: self.known)
    @rule(
        data=st.data(),
        kv_usage=st.floats(0, 1),
        age_s=st.sampled_from([0.0, 0.05, 10.0]),
        steps=st.sampled_from([None, 5.0, 6.0]),
    )
    def report(self, data, kv_usage, age_s, steps):
        name = data.draw(st.sampled_from(sorted(self.known)))
        report = EngineReport(taken_at=self.now - age_s, running=1, waiting=0, kv_usage=kv_usage, steps_total=steps)
        self.apply(self.scheduler.endpoint_reported(name, report, self.now))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def drain(self, data):
        name = data.draw(st.sampled_from(sorted(self.known)))
        self.known[name] = (self.known[name][0], True)
        self.apply(self.scheduler.drain_started(name, self.now))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def lose(self, data):
        """Busy or not; what runs there ends through other events, maybe after it has come back under its name."""
        name = data.draw(st.sampled_from(sorted(self.known)))
        del self.known[name]
        self.lost_running.update(dict.fromkeys(n for n, at in self.running.items() if at == name))
        self.scheduler.endpoint_lost(name, self.now)

    @rule(tenant=st.sampled_from("xyz"), weight=st.sampled_from([0.1, 1.0, 8.0]))
    def edit_weight(self, tenant, weight):
        self.scheduler.weight_changed(tenant, weight)

    @rule(seconds=st.sampled_from([0.01, 0.1, 1, 20]))
    def wait(self, seconds):
        self.now += seconds
        self.apply(self.scheduler.tick(self.now))

    @invariant()
    def the_accounts_balance(self):
        assert self.scheduler.queued_total() == len(self.waiting)
        assert self.scheduler.running_total() == len(self.running)
        assert sum(self.scheduler.queued_by_rank().values()) == len(self.waiting)
        assert len(self.waiting) <= 12 + len(ENDPOINTS) * 4

    @invariant()
    def nothing_is_negative(self):
        for endpoint in self.scheduler._endpoints.values():
            assert endpoint.decoding >= 0
            assert endpoint.kv_tokens >= -1e-6
            assert endpoint.context_tokens >= -1e-6
            assert len(endpoint.prefilling) + endpoint.decoding == len(endpoint.running)
        for pool in self.scheduler._queues.pools.values():
            assert pool.plan.slots.work_s >= -1e-6
            assert pool.fleet._running == sum(len(endpoint.running) for endpoint in pool.fleet.endpoints.values())

    @invariant()
    def who_is_kept_can_be_found(self):
        for pool in self.scheduler._queues.pools.values():
            queues = pool._queue._queues.values()
            found = {entry[2].number for queue in queues for entries in queue._tenants.values() for entry in entries
                     if _is_kept(entry)}  # fmt: skip
            assert found >= {ticket.number for ticket in pool.waiting.values() if ticket.state is State.KEPT}

    @invariant()
    def the_driver_is_told_when_to_tick_while_there_is_anything_to_do(self):
        assert (self.scheduler.next_deadline() is None) == (not self.waiting and not self.running)

    def teardown(self):
        for number in sorted([*self.waiting, *self.running]):
            if number in self.waiting or number in self.running:
                self.waiting.pop(number, None)
                self.running.pop(number, None)
                self.end(number)
                self.apply(self.scheduler.request_withdrawn(number, self.now))
        assert sorted(self.ended) == list(range(1, self.next_id + 1))
        assert self.scheduler._queues.queued.by_tenant == {}
        assert self.scheduler.endpoint_states(self.now) == [] or self.scheduler.running_total() == 0
        for endpoint in self.scheduler._endpoints.values():
            assert not endpoint.running
            assert endpoint.kv_tokens == endpoint.context_tokens == endpoint.decoding == 0
            assert endpoint.paces.tightest_s() == inf
        assert all(len(pool.plan.slots) == 0 for pool in self.scheduler._queues.pools.values())


SchedulerMachine.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)
TestSchedulerMachine = SchedulerMachine.TestCase

"""Whatever happens in whatever order, the accounts balance."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from workers.scheduling.interface import Dispatch, Request, SchedulerConfig
from workers.scheduling.scheduler import Scheduler

pytestmark = pytest.mark.unit

ENDPOINTS = {"a1": "va", "a2": "va", "b1": "vb"}


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.scheduler = Scheduler(SchedulerConfig(max_queued_requests=12, patience_s=5, max_attempts=3))
        self.now = 0.0
        self.next_id = 0
        self.waiting: dict[int, Request] = {}
        self.running: dict[int, str] = {}
        self.rejected: set[int] = set()
        self.known: dict[str, tuple[int, bool]] = {}

    def apply(self, commands):
        for command in commands:
            request = self.waiting.pop(command.request_id)
            if isinstance(command, Dispatch):
                slots, is_draining = self.known[command.endpoint_id]
                assert not is_draining
                assert ENDPOINTS[command.endpoint_id] == request.version_id
                self.running[command.request_id] = command.endpoint_id
                assert list(self.running.values()).count(command.endpoint_id) <= slots
                self.requests[command.request_id] = request
            else:
                self.rejected.add(command.request_id)

    requests: dict[int, Request] = {}

    @rule(tenant=st.sampled_from("xyz"), rank=st.integers(0, 2), version=st.sampled_from(["va", "vb", "nowhere"]))
    def arrive(self, tenant, rank, version):
        self.next_id += 1
        request = Request(
            request_id=self.next_id,
            version_id=version,
            tenant_id=tenant,
            rank=rank,
            max_queued_of_tenant=6,
            arrived_at=self.now,
        )
        self.waiting[self.next_id] = request
        self.apply(self.scheduler.request_arrived(request, self.now))

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data):
        number = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[number]
        self.apply(self.scheduler.request_finished(number, self.now))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), may_retry=st.booleans())
    def fail(self, data, may_retry):
        number = data.draw(st.sampled_from(sorted(self.running)))
        del self.running[number]
        if may_retry:
            self.waiting[number] = self.requests[number]
        self.apply(self.scheduler.request_failed(number, self.now, may_retry=may_retry))

    @precondition(lambda self: self.running or self.waiting)
    @rule(data=st.data())
    def withdraw(self, data):
        number = data.draw(st.sampled_from(sorted([*self.running, *self.waiting])))
        self.running.pop(number, None)
        self.waiting.pop(number, None)
        self.apply(self.scheduler.request_withdrawn(number, self.now))

    @rule(name=st.sampled_from(sorted(ENDPOINTS)), slots=st.integers(1, 4), draining=st.booleans())
    def update(self, name, slots, draining):
        busy = list(self.running.values()).count(name)
        self.known[name] = (max(slots, busy), draining)
        self.apply(
            self.scheduler.endpoint_updated(name, ENDPOINTS[name], max(slots, busy), self.now, is_draining=draining)
        )

    @precondition(lambda self: any(name not in self.running.values() for name in self.known))
    @rule(data=st.data())
    def lose(self, data):
        name = data.draw(st.sampled_from(sorted(n for n in self.known if n not in self.running.values())))
        del self.known[name]
        self.scheduler.endpoint_lost(name)

    @rule(seconds=st.sampled_from([0.1, 1, 20]))
    def wait(self, seconds):
        self.now += seconds
        self.apply(self.scheduler.tick(self.now))

    @invariant()
    def the_accounts_balance(self):
        assert self.scheduler.queued_total() == len(self.waiting)
        assert self.scheduler.running_total() == len(self.running)
        assert sum(self.scheduler.queued_by_rank().values()) == len(self.waiting)
        assert len(self.waiting) <= 12 + len(self.known) * 4

    @invariant()
    def nobody_waits_beside_a_free_healthy_endpoint(self):
        for name, (slots, is_draining) in self.known.items():
            endpoint = self.scheduler._endpoints[name]
            if not is_draining and endpoint.failures_in_a_row == 0 and len(endpoint.running) < slots:
                assert not [r for r in self.waiting.values() if r.version_id == ENDPOINTS[name]]

    def teardown(self):
        for number in sorted(self.running):
            self.running.pop(number)
            self.apply(self.scheduler.request_finished(number, self.now))
        for number in sorted([*self.waiting, *self.running]):
            self.waiting.pop(number, None)
            self.running.pop(number, None)
            self.apply(self.scheduler.request_withdrawn(number, self.now))
        assert self.scheduler._queued_by_tenant == {}
        assert all(not endpoint.running for endpoint in self.scheduler._endpoints.values())


SchedulerMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestSchedulerMachine = SchedulerMachine.TestCase

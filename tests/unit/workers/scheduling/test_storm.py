"""Anything at any time, twice or too late: every request ends once, and what nothing runs on is as it was at first."""

from math import inf
from random import Random

import pytest
from msgspec import structs

from tests.unit.workers.scheduling.bench import KNOWN
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
from workers.scheduling.scheduler import Scheduler

pytestmark = pytest.mark.unit

MOST_QUEUED, MOST_OF_TENANT = 60, 25
SPECS = {
    "va": KNOWN,
    "vb": DEFAULT_SPEC,
    "vc": structs.replace(KNOWN, batching=Batching(max_requests=3, max_tokens=6000, window_s=0.05)),
}
TOKENS = (0, 1, 100, 3000, 60_000, 10**9, 10**12)
LENGTHS = (0.0, 1.0, 50.0, 3000.0, 1e9, inf, float("nan"))
WEIGHTS = (None, 1.0, 1.0, 8.0, 1e-9, 1e300, inf, float("nan"))


class Storm:
    """`waiting` and `running` are a simple model of what the scheduler should hold."""

    def __init__(self, seed):
        self.rng = Random(seed)  # noqa: S311 - a simulation
        self.scheduler = Scheduler(
            SchedulerConfig(max_queued_requests=MOST_QUEUED, patience_s=20.0, stall_after_s=10.0, suspend_s=1.0)
        )
        self.now = self.ticked_at = 1000.0
        self.requests, self.waiting, self.running, self.begun, self.ended = {}, {}, {}, {}, {}
        self.endpoints, self.log = {}, []

    def play(self, events):
        for _ in range(events):
            self.now += self.rng.choice((0.0, 0.001, 0.02, 0.3))
            self.rng.choices((self.arrive, self.move, self.of_endpoint, self.again, self.tick), (6, 8, 2, 1, 3))[0]()
            self.check()
        return self.log

    def apply(self, commands):
        for command in commands:
            self.log.append((self.now, repr(command)))
            if isinstance(command, Dispatch | Migrate):
                self.start(command)
            elif isinstance(command, Reject):
                assert command.request_id not in self.begun or command.code != "queue_full"
                self.end(self.waiting, command.request_id)
            elif isinstance(command, Cancel):
                assert command.request_id in self.running
            elif isinstance(command, Suspect):
                assert all(self.running[number] == command.endpoint_id for number in command.request_ids)

    def start(self, command):
        number, name = command.request_id, command.endpoint_id
        del self.waiting[number]
        assert isinstance(command, Migrate) == (number in self.begun)
        version_id, is_draining, slots = self.endpoints[name]
        request = self.requests[number]
        assert version_id in {request.version_id, *request.alternatives}
        assert not is_draining
        model = self.scheduler._endpoints[name]
        assert len(model.running) <= slots
        assert model.breaker.opened_until <= self.now
        assert request.deadline_at is None or self.ticked_at <= request.deadline_at
        self.running[number] = name

    def end(self, where, number):
        del where[number]
        assert number not in self.ended
        self.ended[number] = None

    # events

    def arrive(self):
        rng, number = self.rng, len(self.requests) + 1
        tokens = rng.choice(TOKENS)
        length = rng.randrange(60) if tokens and tokens < 10**8 else 0
        request = Request(
            request_id=number, version_id=rng.choice(("va", "va", "vb", "vc", f"v{number}")),
            tenant_id=rng.choice(("x", "x", "x", "y", f"t{number}")), rank=rng.randrange(4),
            max_queued_of_tenant=MOST_OF_TENANT, arrived_at=self.now, prompt_tokens=tokens,
            predicted_output_tokens=rng.choice(LENGTHS), weight=rng.choice(WEIGHTS),
            prefix_blocks=(*range(length), *range(number * 1000, number * 1000 + length)),
            told_blocks=rng.choice((None, 0, 5)), ttft_slo_s=rng.choice((None, 0.0, 0.5, 20.0, inf)),
            tpot_slo_s=rng.choice((None, 0.05, inf)), tenant_weight=rng.choice(WEIGHTS) or 1.0,
            deadline_at=rng.choice((None, None, self.now - 1.0, self.now + 3.0, inf)),
            workflow_id=rng.choice(("", "", "w", f"w{number}")), workflow_tokens=rng.choice((None, 5000)),
            workflow_deadline_at=rng.choice((None, 0.0, self.now + 8.0)),
            alternatives=rng.choice(((), (), ("vb",), ("vc", "va", "vnone"))),
        )  # fmt: skip
        self.requests[number] = self.waiting[number] = request
        self.apply(self.scheduler.request_arrived(request, self.now))

    def move(self):
        """Something comes of what runs, or of what waits."""
        rng, scheduler, now = self.rng, self.scheduler, self.now
        number = rng.choice(list(self.running) or list(self.waiting) or [0])
        what = rng.randrange(8)
        if number not in self.running:
            if number in self.waiting and what == 0:
                self.end(self.waiting, number)
                self.apply(scheduler.request_withdrawn(number, now))
        elif what <= 1:
            self.apply(scheduler.first_token(number, now))
        elif what == 2:
            self.apply(scheduler.progress(number, rng.choice((0, 1, 500, 10**9)), now))
        elif what <= 4:
            self.end(self.running, number)
            self.apply(scheduler.request_finished(number, now, rng.choice((0, 0, 1, 200, 10**9))))
        elif what == 5:
            self.end(self.running, number)
            self.apply(scheduler.request_withdrawn(number, now))
        else:
            self.fail(number)

    def fail(self, number):
        rng = self.rng
        generated, may_retry = rng.choice((0, 0, 9)), rng.random() < 0.7
        if may_retry:
            del self.running[number]
            self.waiting[number] = self.requests[number]
            self.begun.pop(number, None)
            if generated:
                self.begun[number] = None
        else:
            self.end(self.running, number)
        pause_s = rng.choice((None, None, None, 0.0, 2.0, inf, float("nan")))
        self.apply(
            self.scheduler.request_failed(
                number, self.now, may_retry=may_retry, generated_tokens=generated, retry_after_s=pause_s
            )
        )

    def of_endpoint(self):
        rng, now, name = self.rng, self.now, f"e{self.rng.randrange(7)}"
        version_id, scheduler = ("va", "vb", "vc")[int(name[1:]) % 3], self.scheduler
        what = rng.randrange(10)
        if what <= 3:
            draining, slots = rng.random() < 0.2, max(rng.randrange(5), list(self.running.values()).count(name))
            spec = structs.replace(SPECS[version_id], max_batched_tokens=rng.choice((0, 512, 2048)))
            self.endpoints[name] = (version_id, draining, slots)
            self.apply(scheduler.endpoint_updated(
                name, version_id, slots, now, is_draining=draining, spec=rng.choice((None, spec)),
                warmth=rng.choice(("warm", "warm", "warm", "loading", "cold")), ready_in_s=rng.choice((None, 2.0)),
            ))  # fmt: skip
        elif what == 4:
            self.endpoints.pop(name, None)
            self.apply(scheduler.endpoint_lost(name, now))
        elif what <= 7:
            report = EngineReport(
                taken_at=now - rng.choice((0.0, 0.1, 50.0, -5.0)), running=rng.randrange(3), waiting=0,
                kv_usage=rng.choice((None, 0.0, 0.4, 1.0, 7.0)), steps_total=rng.choice((None, 5.0, now)),
            )  # fmt: skip
            self.apply(scheduler.endpoint_reported(name, report, now))
        elif what == 8:
            changes = [
                KVChange(stored=(0, 1, 2)),
                KVChange(removed=(1,)),
                KVChange(is_cleared=True),
                KVChange(is_last=True),
            ]
            self.apply(scheduler.prefixes_changed(name, rng.sample(changes, 2), now))
        elif name in self.endpoints:
            self.endpoints[name] = (version_id, True, self.endpoints[name][2])
            self.apply(scheduler.drain_started(name, now))

    def again(self):
        """What has been told already, or is told of what has gone."""
        rng, scheduler, now = self.rng, self.scheduler, self.now
        gone = rng.choice(list(self.ended) or [10**6])
        assert scheduler.first_token(gone, now) == scheduler.progress(gone, 5, now) == []
        assert scheduler.request_finished(gone, now, 5) == scheduler.request_withdrawn(gone, now) == []
        assert scheduler.request_failed(gone, now, may_retry=True) == []
        alive = rng.choice(list(self.running) + list(self.waiting) or [0])
        if alive:
            assert scheduler.request_arrived(self.requests[alive], now) == []
        if alive in self.waiting:
            assert scheduler.first_token(alive, now) == scheduler.request_failed(alive, now, may_retry=True) == []
        scheduler.weight_changed(rng.choice("xyz"), rng.choice(WEIGHTS) or 0.0)

    def tick(self):
        self.ticked_at = self.now
        self.apply(self.scheduler.tick(self.now))

    # what must hold

    def check(self):
        scheduler = self.scheduler
        assert scheduler.queued_total() == len(self.waiting)
        assert scheduler.running_total() == len(self.running)
        untried = [n for n in self.waiting if not scheduler._queues.tickets[n].attempts]
        assert len(untried) <= MOST_QUEUED
        assert sum(self.requests[n].tenant_id == "x" for n in untried) <= MOST_OF_TENANT
        due = scheduler.next_deadline()
        assert (due is None) == (not self.waiting and not self.running)

    def leave(self):
        for number in [*self.waiting, *self.running]:
            if number not in self.ended:
                self.end(self.waiting if number in self.waiting else self.running, number)
                self.apply(self.scheduler.request_withdrawn(number, self.now))
        for _ in range(2):
            self.now += 100.0
            self.tick()

    def check_empty(self):
        scheduler = self.scheduler
        assert sorted(self.ended) == sorted(self.requests)
        assert scheduler.next_deadline() is None
        assert not scheduler._queues.tickets
        assert not scheduler._queues._degradable
        assert not any(workflow.live for workflow in scheduler._queues.workflows._workflows.values())
        assert set(scheduler._queues.pools) <= {"va", "vb", "vc"}
        for endpoint in scheduler._endpoints.values():
            assert not endpoint.running
            assert not endpoint.prefilling
            assert endpoint.kv_tokens == endpoint.most_kv_tokens == endpoint.context_tokens == endpoint.decoding == 0
            assert len(endpoint.pins) == 0
            assert endpoint.breaker.opens_at() < inf
        for pool in scheduler._queues.pools.values():
            assert not pool.waiting
            assert not pool._unappraised
            assert len(pool.plan.slots) == 0
            assert pool.plan.slots.capacity == pool.fleet.capacity()


@pytest.mark.parametrize("seed", range(12))
def test_every_request_ends_once_and_nothing_is_kept_of_it(seed):
    storm = Storm(seed)
    storm.play(1200)
    storm.leave()
    storm.check_empty()
    assert len(storm.ended) > 200


def test_the_same_events_give_the_same_commands():
    assert Storm(99).play(800) == Storm(99).play(800)

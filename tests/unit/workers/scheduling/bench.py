"""A scheduler with short ways to say what happens."""

from msgspec import structs

from workers.scheduling.endpoint_spec import DEFAULT_SPEC
from workers.scheduling.interface import (
    Cancel,
    Dispatch,
    EngineReport,
    Migrate,
    Reject,
    Request,
    SchedulerConfig,
    Suspect,
)
from workers.scheduling.scheduler import Scheduler

KNOWN = structs.replace(DEFAULT_SPEC, is_speed_known=True)


class Bench:
    """`sent` says where each request went last, `rejects`, `cancels` and `suspects` what else was commanded."""

    def __init__(self, **config):
        self.scheduler = Scheduler(SchedulerConfig(**config))
        self.now = 100.0
        self.number = 0
        self.sent = {}
        self.order = []
        self.rejects = {}
        self.cancels = {}
        self.suspects = []
        self.batches = {}

    def note(self, commands):
        for command in commands:
            if isinstance(command, Dispatch | Migrate):
                self.sent[command.request_id] = command.endpoint_id
                self.order.append(command.request_id)
                self.batches[command.request_id] = getattr(command, "batch", 0)
            elif isinstance(command, Reject):
                self.rejects[command.request_id] = command
            elif isinstance(command, Cancel):
                self.cancels[command.request_id] = command.reason
            elif isinstance(command, Suspect):
                self.suspects.append(command)
        return commands

    def endpoint(self, name="e1", *, slots=1000, version="v1", draining=False, spec=KNOWN, **more):
        return self.note(
            self.scheduler.endpoint_updated(name, version, slots, self.now, is_draining=draining, spec=spec, **more)
        )

    def arrive(self, *, tenant="t1", rank=0, version="v1", **more):
        """Returns the request's id."""
        self.number += 1
        values = {"prompt_tokens": 100, "predicted_output_tokens": 50.0, "max_queued_of_tenant": 100_000, **more}
        request = Request(
            request_id=self.number, version_id=version, tenant_id=tenant, rank=rank, arrived_at=self.now, **values
        )
        self.note(self.scheduler.request_arrived(request, self.now))
        return self.number

    def first_token(self, number):
        return self.note(self.scheduler.first_token(number, self.now))

    def progress(self, number, tokens=1):
        return self.note(self.scheduler.progress(number, tokens, self.now))

    def finish(self, number, tokens=50):
        return self.note(self.scheduler.request_finished(number, self.now, tokens))

    def fail(self, number, *, may_retry=True, **more):
        return self.note(self.scheduler.request_failed(number, self.now, may_retry=may_retry, **more))

    def report(self, name="e1", *, taken_at=None, kv_usage=0.1, **counters):
        report = EngineReport(
            taken_at=self.now if taken_at is None else taken_at, running=1, waiting=0, kv_usage=kv_usage, **counters
        )
        return self.note(self.scheduler.endpoint_reported(name, report, self.now))

    def after(self, seconds, step=None):
        """Ticks at the end, or every `step` on the way."""
        end = self.now + seconds
        while step is not None and self.now + step < end:
            self.now += step
            self.note(self.scheduler.tick(self.now))
        self.now = end
        return self.note(self.scheduler.tick(self.now))

    def state(self, name="e1"):
        return next(state for state in self.scheduler.endpoint_states(self.now) if state.endpoint_id == name)

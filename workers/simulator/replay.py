"""Replays jobs on a fleet of engine models through a scheduler."""

import heapq
from collections.abc import Callable, Mapping

from msgspec import Struct

from workers.scheduling.endpoint_spec import EndpointSpec
from workers.scheduling.interface import Command, Core, Dispatch, EngineReport, Reject, Request
from workers.scheduling.scheduler import Scheduler
from workers.simulator.engine import Engine
from workers.simulator.job import Job
from workers.simulator.workloads.workload import Session, Workload

VERSION = "v"
_ARRIVAL, _STEP, _REPORT, _TICK = range(4)
MIN_TICK_S = 0.001


class ReplayConfig(Struct, frozen=True):
    """`report_age_s`: how old an engine's report is when it arrives; 0 sends none."""

    report_every_s: float = 0.05
    report_age_s: float = 0.05
    max_running: int = 100_000


class Replay:
    """`run` plays to the end: every job has finished or was refused."""

    def __init__(
        self,
        core: Core,
        engines: list[Engine],
        workload: Workload,
        config: ReplayConfig,
        specs: Mapping[str, EndpointSpec] | None = None,
    ) -> None:
        """`specs` are those of engines that are not of the usual kind, for a core that tells kinds apart."""
        self._core = core
        self._specs = specs or {}
        self._engines = {engine.name: engine for engine in engines}
        self._config = config
        self._events: list[tuple[float, int, int, object]] = []
        self._order = 0
        self._jobs: dict[int, Job] = {}
        self._sessions = {session.number: session for session in workload.sessions}
        self._next_call: dict[int, int] = {}
        self._idle: list[Engine] = []
        self._open = 0
        self._tick_at: float | None = None
        self.now = 0.0
        for job in workload.jobs:
            self._schedule(job.arrived_at, _ARRIVAL, job)
        for session in workload.sessions:
            self._call(session, 0, session.starts_at)

    def run(self) -> None:
        for name in self._engines:
            self._carry_out(self._introduce(name))
        if self._config.report_age_s > 0 and getattr(self._core, "reads_reports", True):
            self._schedule(self._config.report_every_s, _REPORT, [])
        handlers: list[Callable[..., None]] = [self._arrive, self._end_steps, self._report, self._tick]
        while self._open or self._jobs:
            self.now, kind, _, subject = heapq.heappop(self._events)
            handlers[kind](subject)
            while self._idle:
                self._begin(self._idle.pop())
            self._plan_tick()

    def _introduce(self, name: str) -> list[Command]:
        core, spec, slots = self._core, self._specs.get(name), self._config.max_running
        if spec is not None and isinstance(core, Scheduler):
            return core.endpoint_updated(name, VERSION, slots, 0.0, is_draining=False, spec=spec)
        return core.endpoint_updated(name, VERSION, slots, 0.0, is_draining=False)

    # events

    def _arrive(self, job: Job) -> None:
        self._open -= 1
        job.arrived_at = self.now
        self._jobs[job.number] = job
        self._carry_out(self._core.request_arrived(_request(job), self.now))

    def _end_steps(self, subject: tuple[Engine, int]) -> None:
        engine, leap = subject
        if engine.leaps != leap or engine.ends_at != self.now:
            return
        first_tokens, finished = engine.end()
        engine.ends_at = None
        self._idle.append(engine)
        for job in first_tokens:
            self._carry_out(self._core.first_token(job.number, self.now))
        for job in finished:
            del self._jobs[job.number]
            self._carry_out(self._core.request_finished(job.number, self.now, job.output_tokens))
            self._follow_up(job)

    def _report(self, taken: list[tuple[str, EngineReport]]) -> None:
        for name, report in taken:
            self._carry_out(self._core.endpoint_reported(name, report, self.now))
        if taken:
            return
        reports = [(engine.name, _measure(engine, self.now)) for engine in self._engines.values()]
        self._schedule(self.now + self._config.report_age_s, _REPORT, reports)
        self._schedule(self.now + self._config.report_every_s, _REPORT, [])

    def _tick(self, at: float) -> None:
        if at == self._tick_at:
            self._tick_at = None
            self._carry_out(self._core.tick(self.now))

    # consequences

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, Dispatch):
                self._dispatch(self._jobs[command.request_id], self._engines[command.endpoint_id])
            elif isinstance(command, Reject):
                job = self._jobs.pop(command.request_id)
                job.is_refused = True
                self._follow_up(job)

    def _dispatch(self, job: Job, engine: Engine) -> None:
        job.endpoint = engine.name
        if engine.arrive(job, self.now):
            self._schedule(engine.ends_at or 0.0, _STEP, (engine, engine.leaps))
        if engine.ends_at is None and engine not in self._idle:
            self._idle.append(engine)

    def _begin(self, engine: Engine) -> None:
        ends_at = engine.begin(self.now)
        if ends_at is not None:
            self._schedule(ends_at, _STEP, (engine, engine.leaps))

    def _follow_up(self, job: Job) -> None:
        session = self._sessions.get(job.session) if job.session is not None else None
        if session is None:
            return
        following = self._next_call[session.number]
        is_doomed = session.budget_s is not None and job.is_refused
        if following < len(session.calls) and not is_doomed:
            self._call(session, following, self.now + session.calls[following].gap_s)

    def _call(self, session: Session, index: int, at: float) -> None:
        job = session.calls[index].job
        if session.budget_s is not None:
            job.deadline_at = session.starts_at + session.budget_s
        self._next_call[session.number] = index + 1
        self._schedule(at, _ARRIVAL, job)

    def _plan_tick(self) -> None:
        due = self._core.next_deadline()
        if due is None:
            return
        at = max(due, self.now + MIN_TICK_S)
        if self._tick_at is None or at < self._tick_at:
            self._tick_at = at
            self._schedule(at, _TICK, at)

    def _schedule(self, at: float, kind: int, subject: object) -> None:
        self._order += 1
        self._open += kind == _ARRIVAL
        heapq.heappush(self._events, (at, kind, self._order, subject))


def _measure(engine: Engine, now: float) -> EngineReport:
    return EngineReport(taken_at=now, running=engine.running, waiting=len(engine.waiting), kv_usage=engine.kv_usage())


def _request(job: Job) -> Request:
    return Request(
        request_id=job.number,
        version_id=VERSION,
        tenant_id=job.tenant,
        rank=job.rank,
        max_queued_of_tenant=1_000_000,
        arrived_at=job.arrived_at,
        prompt_tokens=job.prompt_tokens,
        predicted_output_tokens=job.predicted_tokens,
        prefix_blocks=job.blocks,
        block_tokens=job.block_tokens,
        ttft_slo_s=job.ttft_slo_s or None,
        tpot_slo_s=job.tpot_slo_s or None,
        deadline_at=job.deadline_at,
        weight=job.weight,
        workflow_id="" if job.deadline_at is None else str(job.session),
    )

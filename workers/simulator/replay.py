"""Replays jobs on a fleet of engine models through a scheduler."""

import gc
import heapq
from collections.abc import Callable, Mapping
from math import inf

from msgspec import Struct

from workers.scheduling.endpoint_spec import EndpointSpec
from workers.scheduling.interface import Cancel, Command, Core, Dispatch, EngineReport, Reject, Request
from workers.scheduling.scheduler import Scheduler
from workers.simulator.engine import Engine
from workers.simulator.job import Job
from workers.simulator.kv_cache import BLOCK_TOKENS
from workers.simulator.reports import Gauge, ReportClock
from workers.simulator.workloads.workload import Session, Workload

VERSION = "v"
_ARRIVAL, _STEP, _REPORT, _TICK = 0, 1, 2, 3
MIN_TICK_S = 0.001
MARGIN = 0.02
"""What would not fit into an engine's KV cache is refused, as by a limit of the context."""


class ReplayConfig(Struct, frozen=True):
    """`report_age_s`: how old an engine's report is when it arrives; 0 sends none."""

    report_every_s: float = 0.05
    report_age_s: float = 0.05
    max_running: int = 100_000


class Replay:
    """`run` plays to the end: every job has finished, was refused or cut off.

    Of what happens at one time arrivals come first, then steps that end, reports, and the tick. Reports that change
    no decision are kept back: the core hears the last of them before the next event that they might matter to.
    """

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
        self._gauges = {engine.name: Gauge(engine) for engine in engines}
        self._config = config
        self._longest_tokens = min(engine.kv.total for engine in engines) * BLOCK_TOKENS * (1 - MARGIN)
        has_reports = getattr(core, "reads_reports", True)
        self._clock = ReportClock(config.report_every_s, config.report_age_s if has_reports else 0.0)
        self._reports_matter_at: Callable[[], float] = getattr(core, "reports_matter_at", _always)
        self._note: Callable[[str, EngineReport], None] | None = getattr(core, "report_noted", None)
        self._withdraw: Callable[[int, float, int], list[Command]] | None = getattr(core, "request_withdrawn", None)
        self._jobs: dict[int, Job] = {}
        self._sessions = {session.number: session for session in workload.sessions}
        self._next_call: dict[int, int] = {}
        self._planned = sorted(workload.jobs, key=_arrival_of)
        self._played = 0
        self._calls: list[tuple[float, int, Job]] = []
        self._steps: list[tuple[float, int, Engine, int]] = []
        self._order = 0
        self._idle: list[Engine] = []
        self._arrival_at = self._step_at = self._tick_at = inf
        self.now = 0.0
        for session in workload.sessions:
            self._call(session, 0, session.starts_at)
        self._find_arrival()

    def run(self) -> None:
        """Nothing that is played leaves cycles, so no garbage is looked for meanwhile: a trace is large."""
        was_enabled = gc.isenabled()
        gc.disable()
        try:
            self._run()
        finally:
            if was_enabled:
                gc.enable()

    def _run(self) -> None:
        for name in self._engines:
            self._carry_out(self._introduce(name))
        while self._jobs or self._arrival_at < inf:
            kind = self._advance()
            if kind == _ARRIVAL:
                self._arrive(self._next_job())
            elif kind == _STEP:
                self._end_steps()
            elif kind == _REPORT:
                self._report()
            else:
                self._tick()
            while self._idle:
                self._begin(self._idle.pop())

    def _introduce(self, name: str) -> list[Command]:
        core, spec, slots = self._core, self._specs.get(name), self._config.max_running
        if spec is not None and isinstance(core, Scheduler):
            return core.endpoint_updated(name, VERSION, slots, 0.0, is_draining=False, spec=spec)
        return core.endpoint_updated(name, VERSION, slots, 0.0, is_draining=False)

    # time

    def _advance(self) -> int:
        """To the next event; its kind."""
        at, kind = self._arrival_at, _ARRIVAL
        if self._step_at < at:
            at, kind = self._step_at, _STEP
        if self._tick_at < at:
            at, kind = self._tick_at, _TICK
        arrives_at = self._clock.arrives_at
        if (arrives_at < at or (arrives_at == at and kind == _TICK)) and self._reports_come(at, kind):
            at, kind = self._clock.arrives_at, _REPORT
        self.now = at
        self._clock.take(at, is_included=kind == _TICK)
        return kind

    def _reports_come(self, until: float, kind: int) -> bool:
        """Whether one that matters does before then; those that do not are passed over."""
        clock = self._clock
        matter_at = self._reports_matter_at()
        while clock.arrives_at < until or (clock.arrives_at == until and kind == _TICK):
            if clock.arrives_at >= matter_at:
                return True
            clock.arrive()
        return False

    def _find_arrival(self) -> None:
        at = self._planned[self._played].arrived_at if self._played < len(self._planned) else inf
        self._arrival_at = min(at, self._calls[0][0]) if self._calls else at

    def _next_job(self) -> Job:
        if self._played < len(self._planned) and self._planned[self._played].arrived_at == self._arrival_at:
            job = self._planned[self._played]
            self._played += 1
        else:
            job = heapq.heappop(self._calls)[2]
        self._find_arrival()
        return job

    def _find_step(self) -> None:
        self._step_at = self._steps[0][0] if self._steps else inf

    def _plan_tick(self) -> None:
        due = self._core.next_deadline()
        if due is not None:
            self._tick_at = min(self._tick_at, max(due, self.now + MIN_TICK_S))

    # events

    def _arrive(self, job: Job) -> None:
        job.arrived_at = self.now
        if job.prompt_tokens + job.output_tokens > self._longest_tokens:
            self._refuse(job)
            return
        self._jobs[job.number] = job
        for gauge in self._gauges.values():
            self._tell(gauge)
        self._carry_out(self._core.request_arrived(_request(job), self.now))
        self._plan_tick()

    def _end_steps(self) -> None:
        now = self.now
        ends_at, _, engine, leap = heapq.heappop(self._steps)
        self._find_step()
        if engine.leaps != leap or engine.ends_at != ends_at:
            return
        gauge = self._gauges[engine.name]
        gauge.keep(self._clock)
        first_tokens, finished = engine.end()
        engine.ends_at = None
        self._idle.append(engine)
        if not first_tokens and not finished:
            return
        self._tell(gauge)
        for job in first_tokens:
            self._carry_out(self._core.first_token(job.number, now))
        for job in finished:
            del self._jobs[job.number]
            self._carry_out(self._core.request_finished(job.number, now, job.output_tokens))
            self._follow_up(job)
        self._plan_tick()

    def _report(self) -> None:
        self._clock.arrive()
        due_at = self._clock.due_at
        for name, gauge in self._gauges.items():
            self._carry_out(self._core.endpoint_reported(name, gauge.report(due_at), self.now))
        self._plan_tick()

    def _tell(self, gauge: Gauge) -> None:
        """What of an engine was kept back."""
        due_at = self._clock.due_at
        if gauge.told_at < due_at and self._note is not None:
            self._note(gauge.engine.name, gauge.report(due_at))

    def _tick(self) -> None:
        self._tick_at = inf
        self._carry_out(self._core.tick(self.now))
        self._plan_tick()

    # consequences

    def _carry_out(self, commands: list[Command]) -> None:
        for command in commands:
            if isinstance(command, Dispatch):
                self._dispatch(self._jobs[command.request_id], command.endpoint_id)
            elif isinstance(command, Reject):
                self._refuse(self._jobs.pop(command.request_id))
            elif isinstance(command, Cancel):
                self._cut_off(self._jobs[command.request_id])

    def _refuse(self, job: Job) -> None:
        job.is_refused = True
        self._follow_up(job)

    def _cut_off(self, job: Job) -> None:
        """Unless its answer is complete, and about to be told."""
        if job.finished_at is not None or self._withdraw is None:
            return
        del self._jobs[job.number]
        engine = self._engines[job.endpoint]
        self._gauges[job.endpoint].keep(self._clock)
        if engine.cancel(job, self.now):
            self._plan_step(engine)
        self._carry_out(self._withdraw(job.number, self.now, engine.answered_tokens(job)))
        self._follow_up(job)

    def _dispatch(self, job: Job, name: str) -> None:
        engine = self._engines[name]
        self._gauges[name].keep(self._clock)
        job.endpoint = name
        if engine.arrive(job, self.now):
            self._plan_step(engine)
        if engine.ends_at is None and engine not in self._idle:
            self._idle.append(engine)

    def _begin(self, engine: Engine) -> None:
        if engine.begin(self.now) is not None:
            self._plan_step(engine)

    def _plan_step(self, engine: Engine) -> None:
        self._order += 1
        heapq.heappush(self._steps, (engine.ends_at or 0.0, self._order, engine, engine.leaps))
        self._find_step()

    def _follow_up(self, job: Job) -> None:
        session = self._sessions.get(job.session) if job.session is not None else None
        if session is None:
            return
        following = self._next_call[session.number]
        is_doomed = session.budget_s is not None and (job.is_refused or job.is_cancelled)
        if following < len(session.calls) and not is_doomed:
            self._call(session, following, self.now + session.calls[following].gap_s)
            self._find_arrival()

    def _call(self, session: Session, index: int, at: float) -> None:
        job = session.calls[index].job
        if session.budget_s is not None:
            job.deadline_at = session.starts_at + session.budget_s
        self._next_call[session.number] = index + 1
        self._order += 1
        heapq.heappush(self._calls, (at, self._order, job))


def _always() -> float:
    return -inf


def _arrival_of(job: Job) -> float:
    return job.arrived_at


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

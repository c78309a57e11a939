"""A node without processes: carries out the reconcile loop's actions on made-up engines, as fast as a test wants."""

from dataclasses import dataclass, field

from workers.agent.engines import liveness, reconcile
from workers.agent.engines.memory import (
    Action,
    ActionKind,
    ProbeResult,
    ProcessView,
    ReplicaMemory,
    Timers,
    WeightsView,
)
from workers.agent.engines.pauses import pause_between, without_pause
from workers.contracts.desired import DesiredState, ReplicaSpec
from workers.contracts.telemetry import EndpointEstimate, ReplicaReport
from workers.engines.interface import EngineReading


@dataclass
class Engine:
    """What a test may set to make it behave badly."""

    spec: ReplicaSpec
    pid: int
    started_at: float
    has_passed: bool = False
    is_alive: bool = True
    is_healthy: bool = True
    passes_trials: bool = True
    minds_sigterm: bool = True
    answers: bool = True
    running_requests: int = 0
    generated_tokens: int = 0
    can_sleep: bool = False
    is_asleep: bool = False
    lies_asleep: bool = False
    trials: int = 0
    signals: list[str] = field(default_factory=list)


@dataclass
class World:
    """`restart` stands for a new agent process: what is in memory is lost, engines live on."""

    timers: Timers = field(default_factory=Timers)
    now: float = 1000.0
    turned_at: float | None = None
    desired: DesiredState | None = None
    engines: dict[str, Engine] = field(default_factory=dict)
    memories: dict[str, ReplicaMemory] = field(default_factory=dict)
    reports: dict[str, ReplicaReport] = field(default_factory=dict)
    actions: list[Action] = field(default_factory=list)
    refused_sources: set[str] = field(default_factory=set)
    weights: dict[str, WeightsView] = field(default_factory=dict)
    gateway: dict[str, EndpointEstimate] = field(default_factory=dict)
    fetched: list[str] = field(default_factory=list)
    can_sleep: bool = False
    start_timeout_s: float = 30.0
    pids: int = 100

    def want(self, *specs: ReplicaSpec) -> None:
        self.desired = DesiredState(node_id="node-1", generation=1, fence=1, replicas=list(specs))

    def turn(self, times: int = 1) -> list[ActionKind]:
        """Looks, acts, and lets a second pass; returns what was done in the last turn, probes left out."""
        for _ in range(times):
            pause_s, self.turned_at = pause_between(self.turned_at, self.now, self.timers), self.now
            self.memories = without_pause(self.memories, pause_s, self.now)
            around = reconcile.Surroundings(weights=self.weights, gateway=self.gateway)
            result = reconcile.turn(self.desired, self.views(), self.memories, self.timers, self.now, around=around)
            self.memories = result.memories
            self.reports = {report.replica_id: report for report in result.reports}
            self.actions = result.actions
            for action in result.actions:
                self._carry_out(action)
            self.now += 1
        return [action.kind for action in self.actions if action.kind not in (ActionKind.PROBE, ActionKind.TRY)]

    def states(self) -> dict[str, str]:
        return {replica_id: report.state for replica_id, report in self.reports.items()}

    def restart(self) -> None:
        self.memories = {}

    def views(self) -> dict[str, ProcessView]:
        return {replica_id: self._view(engine) for replica_id, engine in self.engines.items()}

    def _view(self, engine: Engine) -> ProcessView:
        return ProcessView(
            spec=engine.spec,
            pid=engine.pid,
            started_at=engine.started_at,
            is_alive=engine.is_alive,
            has_passed=engine.has_passed,
            exit_detail="" if engine.is_alive else "ended with status 1",
            start_timeout_s=self.start_timeout_s,
            stop_grace_s=3.0,
            max_running_requests=4,
            can_sleep=engine.can_sleep,
            is_asleep=engine.is_asleep,
        )

    def _carry_out(self, action: Action) -> None:
        replica_id = action.spec.replica_id
        match action.kind:
            case ActionKind.START:
                self._start(action.spec)
            case ActionKind.FETCH:
                self.fetched.append(replica_id)
            case ActionKind.FORGET:
                assert not self.engines[replica_id].is_alive, "a living engine must not be forgotten"
                del self.engines[replica_id]
            case _:
                self._act_on(self.engines[replica_id], action.kind)

    def _act_on(self, engine: Engine, kind: ActionKind) -> None:
        match kind:
            case ActionKind.STOP:
                engine.signals.append("TERM")
                engine.is_alive = engine.is_alive and not engine.minds_sigterm
            case ActionKind.KILL:
                engine.signals.append("KILL")
                engine.is_alive = False
            case ActionKind.PROBE:
                self._probe(engine)
            case ActionKind.TRY:
                self._try(engine)
            case ActionKind.SLEEP:
                engine.is_asleep = engine.lies_asleep = True
            case ActionKind.WAKE:
                engine.lies_asleep = False

    def _start(self, spec: ReplicaSpec) -> None:
        assert spec.replica_id not in self.engines, "a replica must not have two processes"
        if spec.source in self.refused_sources:
            memory = self.memories[spec.replica_id]
            self.memories[spec.replica_id] = reconcile.remember_refusal(
                memory, spec, "no such model", self.timers, self.now
            )
            return
        self.pids += 1
        self.engines[spec.replica_id] = Engine(spec, self.pids, self.now, can_sleep=self.can_sleep)

    def _probe(self, engine: Engine) -> None:
        reading = EngineReading(
            running_requests=engine.running_requests,
            waiting_requests=0,
            generated_tokens_total=engine.generated_tokens,
        )
        result = ProbeResult(
            pid=engine.pid,
            is_healthy=engine.is_healthy and engine.answers,
            has_answered=engine.answers,
            reading=reading if engine.answers else None,
            lies_asleep=engine.lies_asleep if engine.can_sleep else None,
        )
        replica_id = engine.spec.replica_id
        self.memories[replica_id] = liveness.remember_probe(self.memories[replica_id], result, self.now)

    def _try(self, engine: Engine) -> None:
        engine.trials += 1
        has_passed = engine.answers and engine.passes_trials and not engine.lies_asleep
        if has_passed:
            engine.has_passed, engine.is_asleep = True, False
        replica_id = engine.spec.replica_id
        self.memories[replica_id] = liveness.remember_trial(
            self.memories[replica_id], engine.pid, has_passed=has_passed, began_at=self.now, now=self.now
        )

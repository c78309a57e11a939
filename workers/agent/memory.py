"""Values of the reconcile loop. All times are of one clock that never goes back, in seconds."""

from enum import Enum

from msgspec import Struct

from workers.contracts.desired import ReplicaSpec
from workers.contracts.endpoints import EngineShape
from workers.engines.interface import EngineReading


class Timers(Struct, frozen=True, kw_only=True):
    """All in seconds. `turn_s` passes between two looks, and between two frames of telemetry.

    `drain_settle_s`: from the moment an endpoint is marked draining until its gateway has surely seen that.
    After `most_crashes` in a row without `stable_after_s` between them, it is not started again by itself.
    `stall_s`: without any progress while requests run, before the engine is tried again; a failed trial ends it.
    """

    turn_s: float = 1.0
    first_backoff_s: float = 1.0
    longest_backoff_s: float = 60.0
    stable_after_s: float = 60.0
    refusal_retry_s: float = 10.0
    most_crashes: int = 8
    drain_settle_s: float = 3.0
    drain_limit_s: float = 600.0
    unhealthy_after_s: float = 5.0
    unhealthy_limit_s: float = 60.0
    stall_s: float = 60.0


class ProcessView(Struct, frozen=True, kw_only=True):
    """An engine process that was started, dead or alive, by this agent or the one before it.

    `has_passed` is whether it has answered a real completion. `exit_detail` says how it ended, as far as is known.
    """

    spec: ReplicaSpec
    pid: int
    started_at: float
    is_alive: bool
    has_passed: bool = False
    exit_detail: str = ""
    start_timeout_s: float = 60.0
    stop_grace_s: float = 5.0
    max_running_requests: int = 1
    shape: EngineShape = EngineShape()


class ProbeResult(Struct, frozen=True, kw_only=True):
    """`is_healthy` is of /health; `trial_passed` None when no trial was made; `reading` None when not to be had."""

    pid: int
    is_healthy: bool
    trial_passed: bool | None = None
    reading: EngineReading | None = None


class ReplicaMemory(Struct, frozen=True, kw_only=True):
    """What is remembered of one replica from turn to turn; starting afresh with it empty is always safe."""

    pid: int | None = None
    restarts: int = 0
    crashes_in_a_row: int = 0
    not_before: float = 0.0
    refused_hash: str = ""
    given_up_hash: str = ""
    problem: str = ""
    restart_pid: int | None = None
    draining_since: float | None = None
    stopping_since: float | None = None
    is_killed: bool = False
    is_healthy: bool = False
    healthy_at: float | None = None
    reading: EngineReading | None = None
    progress_at: float | None = None
    has_failed_trial: bool = False


class ActionKind(Enum):
    START = "start"
    STOP = "stop"
    KILL = "kill"
    FORGET = "forget"
    PROBE = "probe"


class Action(Struct, frozen=True, kw_only=True):
    """`with_trial` is of a probe. FORGET drops what is left of a process that has ended."""

    kind: ActionKind
    spec: ReplicaSpec
    with_trial: bool = False

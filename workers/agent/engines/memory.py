"""Values of the reconcile loop. All times are of one clock that never goes back, in seconds."""

from enum import Enum

from msgspec import Struct

from workers.contracts.desired import ReplicaSpec
from workers.contracts.endpoints import EngineShape
from workers.engines.interface import EngineReading

# Of an adopted process nobody learns more.
ENDED_BY_ITSELF = "ended by itself"


class Timers(Struct, frozen=True, kw_only=True):
    """All in seconds. `turn_s` passes between two looks, and between two frames of telemetry.

    `drain_settle_s`: from the moment an endpoint is marked draining until its gateway has surely seen that.
    After `most_crashes` in a row without `stable_after_s` between them, it is not started again by itself.
    More than `longest_gap_s` between two turns is a pause of the agent itself, and counts against no engine.
    The rest is liveness.py's: what hangs is out of routing and ended within half a minute.
    """

    turn_s: float = 1.0
    longest_gap_s: float = 3.0
    first_backoff_s: float = 1.0
    longest_backoff_s: float = 60.0
    stable_after_s: float = 60.0
    refusal_retry_s: float = 10.0
    most_crashes: int = 8
    drain_settle_s: float = 3.0
    drain_limit_s: float = 600.0
    hung_after_s: float = 15.0
    fewest_silent_probes: int = 4
    stall_s: float = 12.0
    trial_s: float = 6.0
    retrial_s: float = 3.0
    idle_trial_s: float = 10.0
    most_failed_trials: int = 2
    unhealthy_after_s: float = 8.0
    unhealthy_limit_s: float = 20.0
    wake_limit_s: float = 120.0


class ProcessView(Struct, frozen=True, kw_only=True):
    """An engine process that was started, dead or alive, by this agent or the one before it.

    `has_passed` is whether it has answered a real completion. `exit_detail` says how it ended and the line of
    its log that tells why, as far as is known.
    `is_asleep`: it was put to sleep and has not answered a real request since. `draining_since` and `stopping_since`
    were written down by an agent before. `stall_s` is how long it may well make no step.
    """

    spec: ReplicaSpec
    pid: int
    started_at: float
    is_alive: bool
    has_passed: bool = False
    exit_detail: str = ENDED_BY_ITSELF
    start_timeout_s: float = 60.0
    stop_grace_s: float = 5.0
    stall_s: float = 0.0
    can_sleep: bool = False
    is_asleep: bool = False
    draining_since: float | None = None
    stopping_since: float | None = None
    max_running_requests: int = 1
    shape: EngineShape = EngineShape()


class ProbeResult(Struct, frozen=True, kw_only=True):
    """`is_healthy` is of /health, `has_answered` of anything; `reading` None when not to be had.

    `lies_asleep` is its own word, None from one that cannot sleep.
    """

    pid: int
    is_healthy: bool
    has_answered: bool = True
    reading: EngineReading | None = None
    lies_asleep: bool | None = None


class WeightsView(Struct, frozen=True, kw_only=True):
    """Weights that are not on the disk yet. `ratio` None: nothing is known; `problem` is why they do not come."""

    detail: str = ""
    ratio: float | None = None
    problem: str = ""
    is_fetching: bool = False


class ReplicaMemory(Struct, frozen=True, kw_only=True):
    """What is remembered of one replica from turn to turn; starting afresh with it empty is always safe.

    `paused_s` is how long the agent stood still while this process ran; times are moved on by as much (pauses.py).
    `silent_probes` were not answered, in a row.
    """

    pid: int | None = None
    paused_s: float = 0.0
    restarts: int = 0
    crashes_in_a_row: int = 0
    not_before: float = 0.0
    refused_hash: str = ""
    given_up_hash: str = ""
    problem: str = ""
    draining_since: float | None = None
    stopping_since: float | None = None
    is_killed: bool = False
    waking_since: float | None = None
    is_healthy: bool = False
    refuses_health: bool = False
    healthy_at: float | None = None
    answered_at: float | None = None
    silent_probes: int = 0
    read_at: float | None = None
    reading: EngineReading | None = None
    progress_at: float | None = None
    tokens_at: float | None = None
    longest_pause_s: float = 0.0
    tried_at: float | None = None
    failed_trials: int = 0
    failing_since: float | None = None
    is_suspected: bool = False
    lies_asleep: bool | None = None


class ActionKind(Enum):
    FETCH = "fetch"
    START = "start"
    STOP = "stop"
    KILL = "kill"
    FORGET = "forget"
    PROBE = "probe"
    TRY = "try"
    SLEEP = "sleep"
    WAKE = "wake"


class Action(Struct, frozen=True, kw_only=True):
    """TRY is a real request, `limit_s` how long it may take. FORGET drops what is left of a process that has ended."""

    kind: ActionKind
    spec: ReplicaSpec
    limit_s: float = 0.0

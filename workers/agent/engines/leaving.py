"""How an engine ends: it finishes what it has, is asked to stop, and is killed after its grace. Pure."""

from msgspec import Struct, structs

from workers.agent.engines.liveness import judge
from workers.agent.engines.memory import Action, ActionKind, ProcessView, ReplicaMemory, Timers


class Step(Struct, frozen=True):
    """What one replica's look came to; `state`, `detail` and `progress` are for its report."""

    memory: ReplicaMemory
    state: str
    detail: str = ""
    actions: tuple[Action, ...] = ()
    progress: float | None = None
    is_prepared: bool = False


def leave(
    process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float, *, has_nothing_left: bool = False
) -> Step:
    """`has_nothing_left`: what it has cannot be finished, or is another node's to finish."""
    if memory.stopping_since is not None:
        return _await_end(process, memory, timers, now)
    since = now if memory.draining_since is None else memory.draining_since
    memory = structs.replace(memory, draining_since=since)
    if not has_nothing_left and not is_drained(process, memory, timers, now):
        probe = Action(kind=ActionKind.PROBE, spec=process.spec)
        return Step(memory, "draining", what_is_left(memory), (probe,))
    memory = structs.replace(memory, stopping_since=now)
    return Step(memory, "draining", _why_it_stops(memory, timers), (Action(kind=ActionKind.STOP, spec=process.spec),))


def what_is_left(memory: ReplicaMemory) -> str:
    running = memory.reading.running_requests if memory.reading else None
    return f"finishing what it has: {'unknown' if running is None else running} running"


def is_drained(process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> bool:
    """An engine that was never offered has nothing; one that does not say is given the whole time, a dead one none."""
    drained_s = now - (now if memory.draining_since is None else memory.draining_since)
    if not process.has_passed or drained_s >= timers.drain_limit_s or judge(process, memory, timers, now).fatal:
        return True
    reading = memory.reading
    if drained_s < timers.drain_settle_s or reading is None:
        return False
    return reading.running_requests == 0 and reading.waiting_requests == 0


def _await_end(process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> Step:
    if now - (memory.stopping_since or now) < process.stop_grace_s:
        return Step(memory, "draining", memory.problem or _why_it_stops(memory, timers))
    reason = f"killed, for it did not end within {process.stop_grace_s:.0f} s of being asked to"
    return killed(process, memory, memory.problem or reason, "draining")


def _why_it_stops(memory: ReplicaMemory, timers: Timers) -> str:
    drained_s = (memory.stopping_since or 0.0) - (memory.draining_since or memory.stopping_since or 0.0)
    if drained_s < timers.drain_limit_s:
        return "stopping"
    return f"stopping with what it has left: its {timers.drain_limit_s:.0f} s to finish that are over"


def killed(process: ProcessView, memory: ReplicaMemory, problem: str, state: str) -> Step:
    """Again each turn until it is seen to have ended, which what waits for a device may put off for long."""
    memory = structs.replace(memory, problem=problem, is_killed=True)
    return Step(memory, state, problem, (Action(kind=ActionKind.KILL, spec=process.spec),))

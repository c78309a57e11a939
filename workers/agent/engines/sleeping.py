"""An engine that is put to sleep gives its memory back and keeps its process; waking is quicker than starting. Pure."""

from msgspec import structs

from workers.agent.engines.leaving import Step, is_drained, killed, leave, what_is_left
from workers.agent.engines.memory import Action, ActionKind, ProcessView, ReplicaMemory, Timers
from workers.contracts.desired import ReplicaSpec

# A first request may compile or page in a model.
FIRST_TRIAL_S = 60.0


def look_at_sleeper(spec: ReplicaSpec, process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> Step:
    """Asleep it answers /health and no request: only that it answers at all tells that it lives."""
    if memory.is_killed or (process.is_asleep and _is_silent(memory, timers, now)):
        problem = memory.problem or f"hangs: asleep, it has answered nothing for {timers.hung_after_s:.0f} s"
        return killed(process, memory, problem, "failed")
    probe = Action(kind=ActionKind.PROBE, spec=process.spec)
    if not spec.is_asleep:
        return _wake(process, memory, timers, now, probe)
    if not process.can_sleep:
        return leave(process, memory, timers, now)
    since = now if memory.draining_since is None else memory.draining_since
    memory = structs.replace(memory, draining_since=since, waking_since=None)
    if not process.is_asleep and not is_drained(process, memory, timers, now):
        return Step(memory, "draining", what_is_left(memory), (probe,))
    if memory.lies_asleep and process.is_asleep:
        return Step(memory, "sleeping", "", (probe,))
    return Step(memory, "draining", "falling asleep", (probe, Action(kind=ActionKind.SLEEP, spec=process.spec)))


def _is_silent(memory: ReplicaMemory, timers: Timers, now: float) -> bool:
    return now - (now if memory.answered_at is None else memory.answered_at) >= timers.hung_after_s


def _wake(process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float, probe: Action) -> Step:
    """Until it has answered a real request, which takes the mark off it."""
    since = now if memory.waking_since is None else memory.waking_since
    memory = structs.replace(memory, waking_since=since, draining_since=None)
    if now - since >= timers.wake_limit_s:
        return killed(process, memory, f"did not wake within {timers.wake_limit_s:.0f} s", "failed")
    if memory.lies_asleep is not False:
        return Step(memory, "starting", "waking", (probe, Action(kind=ActionKind.WAKE, spec=process.spec)))
    trial = Action(kind=ActionKind.TRY, spec=process.spec, limit_s=FIRST_TRIAL_S)
    return Step(memory, "warming", "trying a real request", (probe, trial))

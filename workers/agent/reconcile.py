"""Makes the node's engines what the control plane wants. Pure: state and time in, actions and reports out.

`turn` looks at each replica that is wanted or runs:

    runs not, wanted              START, unless it crashed or was refused a moment ago, crashed too often, or must wait
                                  for its turn (starts.py)
    has ended                     FORGET; if it was wanted, that was a crash, and the next start waits longer
    runs, wanted as it is         PROBE; KILL when it does not start in time, is unhealthy too long, or is stuck
    runs, but should not (gone from the desired state, draining, replaced by another spec, restart asked for)
                                  drain, then STOP, and after the grace KILL

Adopting the engines of an agent that died is no action: what runs is read from the node's directory each turn, whoever
started it. Without a desired state (None: not known) nothing is started or stopped.
"""

from collections.abc import Mapping

from msgspec import Struct, structs

from workers.agent.memory import Action, ActionKind, ProbeResult, ProcessView, ReplicaMemory, Timers
from workers.agent.starts import held_back
from workers.contracts.desired import DesiredState, ReplicaSpec
from workers.contracts.telemetry import ReplicaReport


class Turn(Struct, frozen=True, kw_only=True):
    actions: list[Action]
    memories: dict[str, ReplicaMemory]
    reports: list[ReplicaReport]


class _Step(Struct, frozen=True):
    """What one replica's look came to; `state` and `detail` are for its report."""

    memory: ReplicaMemory
    state: str
    detail: str = ""
    actions: tuple[Action, ...] = ()


def turn(
    desired: DesiredState | None,
    processes: Mapping[str, ProcessView],
    memories: Mapping[str, ReplicaMemory],
    timers: Timers,
    now: float,
    *,
    free_bytes: Mapping[str, int] | None = None,
    is_cut_off: bool = False,
) -> Turn:
    """`free_bytes` is by accelerator, as measured; `is_cut_off` (lease.py) ends all that runs and starts nothing."""
    wanted = _wanted(desired, processes, is_cut_off=is_cut_off)
    steps = {
        replica_id: _look(
            wanted.get(replica_id), processes.get(replica_id), memories.get(replica_id, ReplicaMemory()), timers, now
        )
        for replica_id in sorted({*wanted, *processes})
    }
    starts = [action.spec for step in steps.values() for action in step.actions if action.kind is ActionKind.START]
    for replica_id, reason in held_back(starts, processes, wanted, free_bytes or {}).items():
        steps[replica_id] = _Step(steps[replica_id].memory, "placed", reason)
    return Turn(
        actions=[action for step in steps.values() for action in step.actions],
        memories={replica_id: step.memory for replica_id, step in steps.items()},
        reports=[_report(wanted.get(each), processes.get(each), step) for each, step in steps.items()],
    )


def _wanted(
    desired: DesiredState | None, processes: Mapping[str, ProcessView], *, is_cut_off: bool
) -> dict[str, ReplicaSpec]:
    if desired is None:
        return {replica_id: process.spec for replica_id, process in processes.items()}
    specs = {spec.replica_id: spec for spec in desired.replicas}
    return {name: structs.replace(spec, is_draining=True) for name, spec in specs.items()} if is_cut_off else specs


def remember_probe(memory: ReplicaMemory, result: ProbeResult, now: float) -> ReplicaMemory:
    """A result for a process that has since been replaced is dropped."""
    if memory.pid != result.pid:
        return memory
    has_moved = result.trial_passed or _has_moved(memory, result)
    return structs.replace(
        memory,
        is_healthy=result.is_healthy,
        healthy_at=now if result.is_healthy else memory.healthy_at,
        reading=result.reading,
        progress_at=now if has_moved else memory.progress_at,
        has_failed_trial=memory.has_failed_trial if result.trial_passed is None else not result.trial_passed,
    )


def remember_refusal(
    memory: ReplicaMemory, spec: ReplicaSpec, problem: str, timers: Timers, now: float
) -> ReplicaMemory:
    """It could not be started as specified; another spec may be tried at once, this one after a while."""
    return structs.replace(
        memory, refused_hash=spec.spec_hash, problem=problem, not_before=now + timers.refusal_retry_s
    )


def remember_restart(memory: ReplicaMemory) -> ReplicaMemory:
    """The process that runs now should be replaced by a fresh one; where none runs, one is started at once."""
    fresh = structs.replace(memory, given_up_hash="", crashes_in_a_row=0, not_before=0.0)
    return structs.replace(fresh, restart_pid=memory.pid)


def _has_moved(memory: ReplicaMemory, result: ProbeResult) -> bool:
    """Nothing running is no standstill; unknown is neither."""
    if result.reading is None or not result.reading.running_requests:
        return True
    return result.reading != memory.reading


def _look(
    spec: ReplicaSpec | None, process: ProcessView | None, memory: ReplicaMemory, timers: Timers, now: float
) -> _Step:
    if process is None:
        return _absent(spec, memory, now)
    if memory.pid != process.pid:
        memory = _met(memory, process, now)
    if not process.is_alive:
        return _ended(spec, process, memory, timers, now)
    if spec is None or _must_leave(spec, process, memory):
        return _leave(process, memory, timers, now)
    return _keep(process, memory, timers, now)


def _met(memory: ReplicaMemory, process: ProcessView, now: float) -> ReplicaMemory:
    """First sight of a process, ours or one to adopt: what was known of the one before does not count."""
    return ReplicaMemory(
        pid=process.pid,
        restarts=memory.restarts,
        crashes_in_a_row=memory.crashes_in_a_row,
        is_healthy=process.has_passed,
        healthy_at=now if process.has_passed else None,
        progress_at=now,
    )


def _absent(spec: ReplicaSpec | None, memory: ReplicaMemory, now: float) -> _Step:
    if spec is None or spec.is_draining:
        return _Step(ReplicaMemory(restarts=memory.restarts), "stopped")
    if memory.given_up_hash == spec.spec_hash:
        return _Step(memory, "failed", f"given up after {memory.crashes_in_a_row} crashes: {memory.problem}")
    is_held_back = now < memory.not_before and memory.refused_hash in ("", spec.spec_hash)
    if is_held_back:
        return _Step(memory, "failed", f"{memory.problem}; next try in {memory.not_before - now:.0f} s")
    state = "failed" if memory.refused_hash == spec.spec_hash else "starting"
    return _Step(memory, state, memory.problem, (Action(kind=ActionKind.START, spec=spec),))


def _ended(spec: ReplicaSpec | None, process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> _Step:
    forget = (Action(kind=ActionKind.FORGET, spec=process.spec),)
    is_crash = memory.stopping_since is None and spec is not None and not spec.is_draining
    if not is_crash and not memory.problem:
        return _Step(ReplicaMemory(restarts=memory.restarts), "stopped", "", forget)
    problem = memory.problem or process.exit_detail or "ended by itself"
    crashes = memory.crashes_in_a_row + 1
    backoff_s = min(timers.first_backoff_s * 2 ** (crashes - 1), timers.longest_backoff_s)
    remembered = ReplicaMemory(
        restarts=memory.restarts + 1,
        crashes_in_a_row=crashes,
        not_before=now + backoff_s,
        given_up_hash=process.spec.spec_hash if crashes >= timers.most_crashes else "",
        problem=problem,
    )
    return _Step(remembered, "failed", problem, forget)


def _must_leave(spec: ReplicaSpec, process: ProcessView, memory: ReplicaMemory) -> bool:
    is_other = spec.spec_hash != process.spec.spec_hash
    return spec.is_draining or is_other or memory.restart_pid == process.pid or memory.stopping_since is not None


def _leave(process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> _Step:
    if memory.stopping_since is not None:
        return _await_end(process, memory, now)
    since = now if memory.draining_since is None else memory.draining_since
    memory = structs.replace(memory, draining_since=since)
    if not _is_drained(process, memory, timers, now):
        probe = Action(kind=ActionKind.PROBE, spec=process.spec)
        return _Step(memory, "draining", "finishing what it has", (probe,))
    memory = structs.replace(memory, stopping_since=now)
    return _Step(memory, "draining", "stopping", (Action(kind=ActionKind.STOP, spec=process.spec),))


def _is_drained(process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> bool:
    """An engine that was never offered has nothing; one that does not say is given the whole time."""
    drained_s = now - (memory.draining_since or now)
    is_lost = now - (memory.healthy_at or now) > timers.unhealthy_limit_s
    if not process.has_passed or is_lost or drained_s >= timers.drain_limit_s:
        return True
    reading = memory.reading
    if drained_s < timers.drain_settle_s or reading is None:
        return False
    return reading.running_requests == 0 and reading.waiting_requests == 0


def _await_end(process: ProcessView, memory: ReplicaMemory, now: float) -> _Step:
    if now - (memory.stopping_since or now) < process.stop_grace_s:
        return _Step(memory, "draining", memory.problem or "stopping")
    return _killed(process, memory, memory.problem, "draining")


def _killed(process: ProcessView, memory: ReplicaMemory, problem: str, state: str) -> _Step:
    """Again each turn until it is seen to have ended."""
    memory = structs.replace(memory, problem=problem, is_killed=True)
    return _Step(memory, state, problem, (Action(kind=ActionKind.KILL, spec=process.spec),))


def _keep(process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> _Step:
    problem = _fatal_problem(process, memory, timers, now)
    if problem or memory.is_killed:
        return _killed(process, memory, problem or memory.problem, "failed")
    age_s = now - process.started_at
    if memory.crashes_in_a_row and process.has_passed and age_s >= timers.stable_after_s:
        memory = structs.replace(memory, crashes_in_a_row=0)
    is_stalled = _is_stalled(memory, timers, now)
    wants_trial = memory.is_healthy and (not process.has_passed or is_stalled)
    probe = Action(kind=ActionKind.PROBE, spec=process.spec, with_trial=wants_trial)
    state, detail = _condition(process, memory, timers, now, is_stalled=is_stalled)
    return _Step(memory, state, detail, (probe,))


def _fatal_problem(process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> str:
    if not process.has_passed:
        is_late = now - process.started_at > process.start_timeout_s
        return f"did not answer a real request within {process.start_timeout_s:.0f} s" if is_late else ""
    unhealthy_s = now - (memory.healthy_at or now)
    if unhealthy_s > timers.unhealthy_limit_s:
        return f"unhealthy for {unhealthy_s:.0f} s"
    if memory.has_failed_trial and _is_stalled(memory, timers, now):
        return "stuck: requests run, no token comes, and a trial request failed"
    return ""


def _is_stalled(memory: ReplicaMemory, timers: Timers, now: float) -> bool:
    return now - (memory.progress_at or now) >= timers.stall_s


def _condition(
    process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float, *, is_stalled: bool
) -> tuple[str, str]:
    if not process.has_passed:
        return ("warming", "trying a real request") if memory.is_healthy else ("starting", "loading")
    if is_stalled:
        return "degraded", "no progress"
    if not memory.is_healthy and now - (memory.healthy_at or now) >= timers.unhealthy_after_s:
        return "degraded", "health check fails"
    return "ready", ""


def _report(spec: ReplicaSpec | None, process: ProcessView | None, step: _Step) -> ReplicaReport:
    shown = process.spec if process else spec
    is_alive = process is not None and process.is_alive
    reading = step.memory.reading if is_alive else None
    return ReplicaReport(
        replica_id=shown.replica_id if shown else "",
        state=step.state,
        spec_hash=shown.spec_hash if shown else "",
        detail=step.detail,
        pid=process.pid if process and is_alive else None,
        port=shown.port if shown else None,
        restarts=step.memory.restarts,
        has_given_up=bool(step.memory.given_up_hash) and step.state == "failed",
        running_requests=reading.running_requests if reading else None,
        waiting_requests=reading.waiting_requests if reading else None,
        kv_used_ratio=reading.kv_used_ratio if reading else None,
        generated_tokens_total=reading.generated_tokens_total if reading else None,
        prompt_tokens_total=reading.prompt_tokens_total if reading else None,
        kv_capacity_tokens=reading.kv_capacity_tokens if reading else None,
        block_tokens=reading.block_tokens if reading else None,
    )

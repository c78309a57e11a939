"""Makes the node's engines what the control plane wants. Pure: state and time in, actions and reports out.

`turn` looks at each replica that is wanted or runs:

    runs not, wanted              FETCH what is not on the disk; START, unless it crashed or was refused a moment ago,
                                  crashed too often, or must wait for its turn (starts.py)
    has ended                     FORGET; if it was wanted, that was a crash, and the next start waits longer
    runs, wanted as it is         PROBE, and TRY a real request; KILL when it does not start in time, or hangs
                                  (liveness.py)
    runs, wanted asleep           drain, then SLEEP; WAKE when wanted again, and ready once it has answered
    is a part of an engine on several nodes (parts.py)
                                  START when all are prepared, and not again in the same run
    runs, but should not (gone from the desired state, draining, replaced by another spec)
                                  drain, then STOP, and after the grace KILL

Adopting the engines of an agent that died is no action: what runs is read from the node's directory each turn, whoever
started it. Without a desired state (None: not known) nothing is started or stopped.
"""

from collections.abc import Mapping

from msgspec import Struct, structs

from workers.agent.engines.leaving import Step, killed, leave
from workers.agent.engines.liveness import judge, remember_gateway
from workers.agent.engines.memory import Action, ActionKind, ProcessView, ReplicaMemory, Timers, WeightsView
from workers.agent.engines.parts import has_nothing_left, keep_ended, keep_follower, keep_still, let_go, part_ended
from workers.agent.engines.sleeping import FIRST_TRIAL_S, look_at_sleeper
from workers.agent.engines.starts import held_back
from workers.contracts.desired import DesiredState, ReplicaSpec
from workers.contracts.telemetry import EndpointEstimate, ReplicaReport

_BEGINNINGS = (ActionKind.START, ActionKind.WAKE)


class Turn(Struct, frozen=True, kw_only=True):
    actions: list[Action]
    memories: dict[str, ReplicaMemory]
    reports: list[ReplicaReport]


class Surroundings(Struct, frozen=True, kw_only=True):
    """`free_bytes` is by accelerator, as measured. `must_end` ends all that runs and starts nothing.

    It is so where the node is cut off (lease.py), or no part of the fleet any more. `weights` are of replicas whose
    weights are not on the disk; `gateway` is what it believes of them.
    """

    free_bytes: Mapping[str, int] = {}
    must_end: bool = False
    weights: Mapping[str, WeightsView] = {}
    gateway: Mapping[str, EndpointEstimate] = {}


_QUIET = Surroundings()


def turn(
    desired: DesiredState | None,
    processes: Mapping[str, ProcessView],
    memories: Mapping[str, ReplicaMemory],
    timers: Timers,
    now: float,
    *,
    around: Surroundings = _QUIET,
) -> Turn:
    wanted = _wanted(desired, processes, must_end=around.must_end)
    steps = {
        replica_id: _look(
            wanted.get(replica_id),
            processes.get(replica_id),
            remember_gateway(memories.get(replica_id, ReplicaMemory()), around.gateway.get(replica_id), now),
            timers,
            now,
            weights=around.weights.get(replica_id),
        )
        for replica_id in sorted({*wanted, *processes})
    }
    starts = [a.spec for step in steps.values() for a in step.actions if a.kind in _BEGINNINGS]
    waking = {replica_id for replica_id, memory in memories.items() if memory.waking_since is not None}
    for replica_id, reason in held_back(starts, processes, wanted, around.free_bytes, waking).items():
        steps[replica_id] = _hold_back(steps[replica_id], processes.get(replica_id), reason)
    steps = {replica_id: keep_still(step) for replica_id, step in steps.items()}
    return Turn(
        actions=[action for step in steps.values() for action in step.actions],
        memories={replica_id: step.memory for replica_id, step in steps.items()},
        reports=[_report(wanted.get(each), processes.get(each), step) for each, step in steps.items()],
    )


def _hold_back(step: Step, process: ProcessView | None, reason: str) -> Step:
    """One that sleeps meanwhile is still asked whether it lives."""
    state = "sleeping" if process is not None and process.is_alive else "placed"
    others = tuple(action for action in step.actions if action.kind not in _BEGINNINGS)
    return Step(structs.replace(step.memory, waking_since=None), state, reason, others)


def _wanted(
    desired: DesiredState | None, processes: Mapping[str, ProcessView], *, must_end: bool
) -> dict[str, ReplicaSpec]:
    specs = [process.spec for process in processes.values()] if desired is None else desired.replicas
    return {each.replica_id: structs.replace(each, is_draining=True) if must_end else each for each in specs}


def remember_refusal(
    memory: ReplicaMemory, spec: ReplicaSpec, problem: str, timers: Timers, now: float
) -> ReplicaMemory:
    """It could not be started as specified; another spec may be tried at once, this one after a while."""
    return structs.replace(
        memory, refused_hash=spec.spec_hash, problem=problem, not_before=now + timers.refusal_retry_s
    )


def _look(
    spec: ReplicaSpec | None,
    process: ProcessView | None,
    memory: ReplicaMemory,
    timers: Timers,
    now: float,
    *,
    weights: WeightsView | None,
) -> Step:
    if process is None:
        return _absent(spec, memory, weights, now)
    if memory.pid != process.pid:
        memory = _met(memory, process, now)
    if not process.is_alive:
        return _ended(spec, process, memory, timers, now)
    if spec is None or _must_leave(spec, process, memory):
        return leave(process, memory, timers, now, has_nothing_left=has_nothing_left(spec, process))
    if process.spec.follows:
        return keep_follower(process, memory)
    if spec.is_asleep or process.is_asleep:
        return look_at_sleeper(spec, process, memory, timers, now)
    return _keep(process, structs.replace(memory, draining_since=None), timers, now)


def _met(memory: ReplicaMemory, process: ProcessView, now: float) -> ReplicaMemory:
    """First sight of a process, ours or one to adopt: what was known of the one before does not count."""
    return ReplicaMemory(
        pid=process.pid,
        restarts=memory.restarts,
        crashes_in_a_row=memory.crashes_in_a_row,
        draining_since=process.draining_since,
        stopping_since=process.stopping_since,
        is_healthy=process.has_passed,
        healthy_at=now if process.has_passed else None,
        answered_at=now,
        progress_at=now,
        tried_at=now,
        longest_pause_s=memory.longest_pause_s,
    )


def _absent(spec: ReplicaSpec | None, memory: ReplicaMemory, weights: WeightsView | None, now: float) -> Step:
    if spec is None or spec.is_draining or spec.is_asleep:
        return Step(ReplicaMemory(restarts=memory.restarts), "stopped")
    if memory.given_up_hash not in ("", spec.spec_hash):
        memory = ReplicaMemory(restarts=memory.restarts)
    if memory.given_up_hash == spec.spec_hash:
        return Step(memory, "failed", f"given up after {memory.crashes_in_a_row} crashes: {memory.problem}")
    is_held_back = now < memory.not_before and memory.refused_hash in ("", spec.spec_hash)
    if is_held_back:
        return Step(memory, "failed", f"{memory.problem}; next try in {memory.not_before - now:.0f} s")
    if weights is not None:
        return _fetch(spec, memory, weights)
    state = "failed" if memory.refused_hash == spec.spec_hash else "starting"
    return Step(memory, state, memory.problem, (Action(kind=ActionKind.START, spec=spec),))


def _fetch(spec: ReplicaSpec, memory: ReplicaMemory, weights: WeightsView) -> Step:
    fetch = () if weights.is_fetching else (Action(kind=ActionKind.FETCH, spec=spec),)
    state = "failed" if weights.problem else "fetching"
    return Step(memory, state, weights.problem or weights.detail, fetch, weights.ratio)


def _ended(spec: ReplicaSpec | None, process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> Step:
    if spec is not None and part_ended(spec, process):
        return keep_ended(process, memory)
    if process.spec.part is not None:
        return let_go(memory, process)
    forget = (Action(kind=ActionKind.FORGET, spec=process.spec),)
    is_crash = memory.stopping_since is None and spec is not None and not spec.is_draining
    if not is_crash and not memory.problem:
        return Step(ReplicaMemory(restarts=memory.restarts), "stopped", "", forget)
    problem = memory.problem or process.exit_detail
    crashes = memory.crashes_in_a_row + 1
    backoff_s = min(timers.first_backoff_s * 2 ** (crashes - 1), timers.longest_backoff_s)
    remembered = ReplicaMemory(
        restarts=memory.restarts + 1,
        crashes_in_a_row=crashes,
        not_before=now + backoff_s,
        given_up_hash=process.spec.spec_hash if crashes >= timers.most_crashes else "",
        problem=problem,
    )
    return Step(remembered, "failed", problem, forget)


def _must_leave(spec: ReplicaSpec, process: ProcessView, memory: ReplicaMemory) -> bool:
    is_other = spec.spec_hash != process.spec.spec_hash
    return spec.is_draining or is_other or memory.stopping_since is not None


def _keep(process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> Step:
    if memory.is_killed:
        return killed(process, memory, memory.problem, "failed")
    if not process.has_passed:
        return _rise(process, memory, now)
    verdict = judge(process, memory, timers, now)
    if verdict.fatal:
        return killed(process, memory, verdict.fatal, "failed")
    if memory.crashes_in_a_row and now - process.started_at >= timers.stable_after_s:
        memory = structs.replace(memory, crashes_in_a_row=0)
    actions = [Action(kind=ActionKind.PROBE, spec=process.spec)]
    if verdict.wants_trial:
        limit_s = max(timers.trial_s, process.stall_s)
        actions.append(Action(kind=ActionKind.TRY, spec=process.spec, limit_s=limit_s))
    return Step(memory, "degraded" if verdict.problem else "ready", verdict.problem, tuple(actions))


def _rise(process: ProcessView, memory: ReplicaMemory, now: float) -> Step:
    if now - process.started_at - memory.paused_s > process.start_timeout_s:
        problem = f"did not answer a real request within {process.start_timeout_s:.0f} s"
        return killed(process, memory, problem, "failed")
    probe = Action(kind=ActionKind.PROBE, spec=process.spec)
    if not memory.is_healthy:
        return Step(memory, "starting", "loading", (probe,))
    trial = Action(kind=ActionKind.TRY, spec=process.spec, limit_s=FIRST_TRIAL_S)
    return Step(memory, "warming", "trying a real request", (probe, trial))


def _report(spec: ReplicaSpec | None, process: ProcessView | None, step: Step) -> ReplicaReport:
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
        progress_ratio=step.progress,
        is_prepared=step.is_prepared,
        follows=bool(shown and shown.follows),
        has_given_up=bool(step.memory.given_up_hash) and step.state == "failed",
        running_requests=reading.running_requests if reading else None,
        waiting_requests=reading.waiting_requests if reading else None,
        kv_used_ratio=reading.kv_used_ratio if reading else None,
        generated_tokens_total=reading.generated_tokens_total if reading else None,
        prompt_tokens_total=reading.prompt_tokens_total if reading else None,
        kv_capacity_tokens=reading.kv_capacity_tokens if reading else None,
        block_tokens=reading.block_tokens if reading else None,
    )

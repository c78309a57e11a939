"""Whether an engine lives, by what comes out of it. Pure.

/health may say 200 of an engine whose core is dead, and may not be answered by one that is merely busy. So a token, a
step of its counters, or the gateway's word that streams move is worth more than it:

    no answer to anything, no token        hung; ended after `hung_after_s` and `fewest_silent_probes`
    counters stand still while it has work  degraded after `stall_s`; a real request decides, and ends it if it fails
    says that it is unhealthy, no token     ended after `unhealthy_limit_s`
    nothing to do for a while               a real request now and then; two that fail in a row end it
    busy, slow to answer, tokens come       well

While it is degraded it gets nothing new; what it has goes on, until it is well again or ended.
"""

from msgspec import Struct, structs

from workers.agent.engines.memory import ProbeResult, ProcessView, ReplicaMemory, Timers
from workers.contracts.telemetry import EndpointEstimate
from workers.engines.interface import EngineReading

# A gateway that has heard of an engine so lately, has heard it move.
_LATELY_S = 3.0
_SUSPECT_WORDS = {"stalled", "suspended"}
_LONGEST_STALL_S = 120.0


class Verdict(Struct, frozen=True):
    """`problem` degrades it, `fatal` ends it; both "" while it is well."""

    problem: str = ""
    fatal: str = ""
    wants_trial: bool = False


def judge(process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> Verdict:
    """Of one that has answered a real request before."""
    stands_still = _stands_still(process, memory, timers, now)
    unwell_s = now - _newest(now, memory.healthy_at, memory.tokens_at)
    fatal = _fatal(memory, timers, now, unwell_s=unwell_s, stands_still=stands_still)
    if fatal:
        return Verdict(problem=fatal, fatal=fatal)
    problem = ""
    if stands_still:
        problem = "no progress"
    elif unwell_s >= timers.unhealthy_after_s:
        problem = "health check fails"
    elif memory.failed_trials:
        problem = "a trial request failed"
    is_due = now - _newest(now - timers.idle_trial_s, memory.tokens_at, memory.tried_at) >= timers.idle_trial_s
    is_due = is_due and not _is_busy(memory.reading)
    is_suspect = bool(problem) or memory.is_suspected or unwell_s >= timers.retrial_s
    has_waited = memory.tried_at is None or now - memory.tried_at >= timers.retrial_s
    return Verdict(problem=problem, wants_trial=is_due or (is_suspect and has_waited))


def remember_probe(memory: ReplicaMemory, result: ProbeResult, now: float) -> ReplicaMemory:
    """A result for a process that has since been replaced is dropped."""
    if memory.pid != result.pid:
        return memory
    has_stepped = _has_stepped(memory.reading, result.reading)
    memory = _stepped(memory, now) if has_stepped else memory
    return structs.replace(
        memory,
        is_healthy=result.is_healthy,
        refuses_health=result.has_answered and not result.is_healthy,
        healthy_at=now if result.is_healthy else memory.healthy_at,
        answered_at=now if result.has_answered else memory.answered_at,
        silent_probes=0 if result.has_answered else memory.silent_probes + 1,
        read_at=memory.read_at if result.reading is None else now,
        reading=result.reading,
        progress_at=now if has_stepped or not _is_busy(result.reading) else memory.progress_at,
        lies_asleep=result.lies_asleep,
    )


def remember_trial(
    memory: ReplicaMemory, pid: int, *, has_passed: bool | None, began_at: float, now: float
) -> ReplicaMemory:
    """None: it was too busy to take one, which is neither, and so is one that failed while tokens came.

    One that answers nothing at all is seen by that.
    """
    if memory.pid != pid:
        return memory
    if has_passed is False and memory.tokens_at is not None and memory.tokens_at > began_at:
        return structs.replace(memory, tried_at=now)
    if has_passed is None:
        return structs.replace(memory, tried_at=now, answered_at=now)
    if not has_passed and now - _newest(now, memory.answered_at) > _LATELY_S:
        return structs.replace(memory, tried_at=now)
    if not has_passed:
        since = now if memory.failing_since is None else memory.failing_since
        return structs.replace(memory, tried_at=now, failed_trials=memory.failed_trials + 1, failing_since=since)
    seen = dict.fromkeys(("tried_at", "progress_at", "tokens_at", "answered_at", "healthy_at"), now)
    return structs.replace(memory, failed_trials=0, failing_since=None, **seen)


def remember_gateway(memory: ReplicaMemory, estimate: EndpointEstimate | None, now: float) -> ReplicaMemory:
    """Streams that move are a sign of life that needs no answer to a probe."""
    if estimate is None:
        return memory if not memory.is_suspected else structs.replace(memory, is_suspected=False)
    memory = structs.replace(memory, is_suspected=estimate.state in _SUSPECT_WORDS)
    if estimate.silent_s is None or estimate.silent_s > _LATELY_S:
        return memory
    return _stepped(memory, now - estimate.silent_s)


def _stepped(memory: ReplicaMemory, at: float) -> ReplicaMemory:
    """How long it took before says what is usual for this engine."""
    before = memory.progress_at if memory.progress_at is not None else at
    return structs.replace(
        memory,
        tokens_at=_newest(at, memory.tokens_at, at),
        longest_pause_s=max(memory.longest_pause_s, at - before),
        failed_trials=0,
        failing_since=None,
    )


def _has_stepped(before: EngineReading | None, reading: EngineReading | None) -> bool:
    """Counters only: requests that queue up before an engine that hangs are no progress."""
    if reading is None or before is None:
        return False
    known, now = _counters(before), _counters(reading)
    return now != known if any(each is not None for each in now) else reading != before


def _is_busy(reading: EngineReading | None) -> bool:
    return reading is not None and bool(reading.running_requests or reading.waiting_requests)


def _counters(reading: EngineReading) -> tuple[int | None, ...]:
    return reading.steps_total, reading.generated_tokens_total, reading.prompt_tokens_total


def _stands_still(process: ProcessView, memory: ReplicaMemory, timers: Timers, now: float) -> bool:
    """It has work and its counters stand still, or nobody knows for as long."""
    usual_s = min(2 * memory.longest_pause_s, _LONGEST_STALL_S)
    limit_s = max(timers.stall_s, process.stall_s, usual_s)
    known_at = _newest(now, memory.read_at, memory.tokens_at)
    return now - min(_newest(now, memory.progress_at, memory.tokens_at), known_at) >= limit_s


def _fatal(memory: ReplicaMemory, timers: Timers, now: float, *, unwell_s: float, stands_still: bool) -> str:
    quiet_s = now - _newest(now, memory.answered_at, memory.tokens_at)
    if quiet_s >= timers.hung_after_s and memory.silent_probes >= timers.fewest_silent_probes:
        return f"hangs: it has answered nothing for {quiet_s:.0f} s, and no token came out of it"
    if unwell_s >= timers.unhealthy_limit_s and (memory.refuses_health or memory.failed_trials):
        return f"unhealthy for {unwell_s:.0f} s, and no token came out of it"
    if stands_still and memory.failed_trials:
        return "stuck: requests run, no token comes, and a trial request failed"
    failing_s = 0.0 if memory.failing_since is None else now - memory.failing_since
    is_repeated = memory.failed_trials >= timers.most_failed_trials and failing_s >= timers.trial_s
    if is_repeated and not _is_busy(memory.reading) and quiet_s < timers.unhealthy_after_s:
        return f"answers no real request: {memory.failed_trials} failed in a row"
    return ""


def _newest(otherwise: float, *times: float | None) -> float:
    return max((each for each in times if each is not None), default=otherwise)

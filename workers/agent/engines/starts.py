"""Which of the engines that should start may start now. Pure.

Engines that begin on one accelerator take turns: each looks at how much memory is free before it takes its own, and two
that look at once take what is there once. The next one waits until the first answers a real request. One that takes the
place of another waits until that has ended, and its memory is seen to be free.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from workers.agent.engines.memory import ProcessView
from workers.contracts.desired import ReplicaSpec

_GIB = 1024**3
_SHOWN_CHARACTERS = 8
# Its CUDA context, which an engine that sleeps has on the GPU already.
_KEPT_ASLEEP_BYTES = _GIB


def held_back(
    starts: Sequence[ReplicaSpec],
    processes: Mapping[str, ProcessView],
    wanted: Mapping[str, ReplicaSpec],
    free_bytes: Mapping[str, int],
    waking: AbstractSet[str] = frozenset(),
) -> dict[str, str]:
    """By replica, what it waits for; one that shall wake is one that starts, too, and `waking` are those that began to.

    `free_bytes` is by accelerator; one that is not in it says nothing.
    """
    holders = _holders(processes, wanted, waking)
    reasons: dict[str, str] = {}
    for spec in starts:
        kept = _KEPT_ASLEEP_BYTES if spec.replica_id in processes else 0
        reason = _reason(spec, holders, {key: free + kept for key, free in free_bytes.items()})
        if reason:
            reasons[spec.replica_id] = reason
        else:
            for key in spec.accelerators:
                holders.setdefault(key, {})[spec.replica_id] = f"{_short(spec.replica_id)} loads there first"
    return reasons


def _holders(
    processes: Mapping[str, ProcessView], wanted: Mapping[str, ReplicaSpec], waking: AbstractSet[str]
) -> dict[str, dict[str, str]]:
    """By accelerator, who must be waited for, and why."""
    holders: dict[str, dict[str, str]] = {}
    for replica_id, process in processes.items():
        is_waking = replica_id in waking
        reason = _holding(replica_id, process, wanted.get(replica_id), is_waking=is_waking) if process.is_alive else ""
        for key in process.spec.accelerators if reason else []:
            holders.setdefault(key, {})[replica_id] = reason
    return holders


def _holding(replica_id: str, process: ProcessView, spec: ReplicaSpec | None, *, is_waking: bool) -> str:
    """One that shall wake and has not begun to holds nothing: two of them would wait for each other."""
    if spec is None or spec.is_draining or spec.spec_hash != process.spec.spec_hash:
        return f"{_short(replica_id)} there has not ended yet"
    if spec.is_asleep and not process.is_asleep:
        return f"{_short(replica_id)} there is not asleep yet"
    is_rising = (not process.has_passed and not process.spec.follows) or (process.is_asleep and is_waking)
    return f"{_short(replica_id)} loads there first" if is_rising and not spec.is_asleep else ""


def _reason(spec: ReplicaSpec, holders: Mapping[str, Mapping[str, str]], free_bytes: Mapping[str, int]) -> str:
    for key in spec.accelerators:
        others = [reason for holder, reason in holders.get(key, {}).items() if holder != spec.replica_id]
        if others:
            return f"waits for accelerator {key}: replica {others[0]}"
        free = free_bytes.get(key)
        if free is not None and free < spec.reserved_bytes:
            return (
                f"waits for accelerator {key}: {free / _GIB:.1f} GiB is free there, "
                f"{spec.reserved_bytes / _GIB:.1f} GiB is reserved for it"
            )
    return ""


def _short(replica_id: str) -> str:
    """The end of an id tells replicas apart; their beginnings are the time."""
    return f"…{replica_id[-_SHOWN_CHARACTERS:]}"

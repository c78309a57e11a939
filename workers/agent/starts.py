"""Which of the engines that should start may start now. Pure.

Engines that begin on one accelerator take turns: each looks at how much memory is free before it takes its own, and two
that look at once take what is there once. The next one waits until the first answers a real request. One that takes the
place of another waits until that has ended, and its memory is seen to be free.
"""

from collections.abc import Mapping, Sequence

from workers.agent.memory import ProcessView
from workers.contracts.desired import ReplicaSpec

_GIB = 1024**3
_SHOWN_CHARACTERS = 8


def held_back(
    starts: Sequence[ReplicaSpec],
    processes: Mapping[str, ProcessView],
    wanted: Mapping[str, ReplicaSpec],
    free_bytes: Mapping[str, int],
) -> dict[str, str]:
    """By replica, what it waits for. `free_bytes` is by accelerator; one that is not in it says nothing."""
    holders = _holders(processes, wanted)
    reasons: dict[str, str] = {}
    for spec in starts:
        reason = _reason(spec, holders, free_bytes)
        if reason:
            reasons[spec.replica_id] = reason
        else:
            holders |= dict.fromkeys(spec.accelerators, f"{_short(spec.replica_id)} loads there first")
    return reasons


def _holders(processes: Mapping[str, ProcessView], wanted: Mapping[str, ReplicaSpec]) -> dict[str, str]:
    holders: dict[str, str] = {}
    for replica_id, process in processes.items():
        if process.is_alive:
            reason = _holding(replica_id, process, wanted.get(replica_id))
            holders |= dict.fromkeys(process.spec.accelerators, reason) if reason else {}
    return holders


def _holding(replica_id: str, process: ProcessView, spec: ReplicaSpec | None) -> str:
    if spec is None or spec.is_draining or spec.spec_hash != process.spec.spec_hash:
        return f"{_short(replica_id)} there has not ended yet"
    return "" if process.has_passed else f"{_short(replica_id)} loads there first"


def _reason(spec: ReplicaSpec, holders: Mapping[str, str], free_bytes: Mapping[str, int]) -> str:
    for key in spec.accelerators:
        if key in holders:
            return f"waits for accelerator {key}: replica {holders[key]}"
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

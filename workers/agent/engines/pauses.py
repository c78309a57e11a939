"""Time in which this agent stood still: a machine that was suspended, moved, or had no time for it. Pure.

What it did not ask meanwhile, no engine failed to answer, and an engine on the same machine stood still, too.
"""

from collections.abc import Mapping

from msgspec import structs

from workers.agent.engines.memory import ReplicaMemory, Timers

_TIMES = (
    "draining_since", "stopping_since", "waking_since", "healthy_at", "answered_at", "read_at", "progress_at",
    "tokens_at", "tried_at", "failing_since",
)  # fmt: skip


def pause_between(turned_at: float | None, now: float, timers: Timers) -> float:
    """Of two turns; 0 where they followed each other as they should."""
    gap_s = 0.0 if turned_at is None else now - turned_at
    return gap_s - timers.turn_s if gap_s > timers.longest_gap_s else 0.0


def without_pause(memories: Mapping[str, ReplicaMemory], pause_s: float, now: float) -> dict[str, ReplicaMemory]:
    """As if the pause had not been; what was noted right after it is not moved into the future."""
    return {replica_id: _moved_on(memory, pause_s, now) for replica_id, memory in memories.items()}


def _moved_on(memory: ReplicaMemory, pause_s: float, now: float) -> ReplicaMemory:
    known = {name: at for name in _TIMES if (at := getattr(memory, name)) is not None}
    moved = {name: min(at + pause_s, now) for name, at in known.items()}
    return structs.replace(memory, paused_s=memory.paused_s + pause_s, **moved)

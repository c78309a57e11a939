"""A replica whose engine is on several nodes: when its parts start, and what follows when one of them ends. Pure.

Agents know their own part only. All parts of one run start together, once each says that it is prepared. A part that
ends takes the whole with it: a new run is asked for at once, so that the others end, and begins after a while that
grows. Parts of different runs meet at different ports, so that none of before gets in. A drain and a restart are the
leader's first: the others stay until it has finished what it has.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from uuid import UUID

FAILED, STOPPED, READY = "failed", "stopped", "ready"
# Above engines' own ports, below those that systems give to whoever asks for any.
FIRST_PORT, PORTS = 20_000, 10_000
MOST_BROKEN_RUNS = 8
_FIRST_WAIT, _LONGEST_WAIT = timedelta(seconds=2), timedelta(minutes=5)
STABLE_AFTER = timedelta(minutes=1)


class Move(Enum):
    """START: the run's parts may begin. BREAK: it is over, and another is asked for. SETTLE: all has been well."""

    STAY = "stay"
    START = "start"
    BREAK = "break"
    SETTLE = "settle"
    GIVE_UP = "give up"


@dataclass(frozen=True, kw_only=True, slots=True)
class PartView:
    """What a node last said of its part. `is_of_run`: of the run that is wanted now, and not of one before."""

    node_name: str
    rank: int
    state: str = ""
    detail: str = ""
    is_of_run: bool = False
    is_prepared: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class RunView:
    """`has_started`: its parts have been told that they may. `broken_runs` in a row, the last at `broken_at`."""

    has_started: bool
    broken_runs: int = 0
    broken_at: datetime | None = None
    ready_since: datetime | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    move: Move
    reason: str = ""


def judge_run(run: RunView, parts: Sequence[PartView], now: datetime) -> Verdict:
    """Of a replica that is to serve; one that drains or sleeps is left to its leader."""
    if run.has_started:
        ended = [part for part in parts if part.is_of_run and part.state in (FAILED, STOPPED)]
        if ended:
            return Verdict(move=Move.BREAK, reason=reason_of(ended[0], len(parts)))
        is_stable = run.broken_runs and run.ready_since is not None and now - run.ready_since >= STABLE_AFTER
        return Verdict(move=Move.SETTLE if is_stable else Move.STAY)
    if run.broken_runs >= MOST_BROKEN_RUNS:
        return Verdict(move=Move.GIVE_UP)
    is_prepared = all(part.is_of_run and part.is_prepared for part in parts)
    if not is_prepared or (run.broken_at is not None and now < run.broken_at + wait_after(run.broken_runs)):
        return Verdict(move=Move.STAY)
    return Verdict(move=Move.START)


def reason_of(part: PartView, count: int) -> str:
    return f"part {part.rank + 1} of {count} on {part.node_name} {part.state}: {part.detail or 'it says no more'}"


def wait_after(broken_runs: int) -> timedelta:
    if not broken_runs:
        return timedelta(0)
    doublings: int = 2 ** (broken_runs - 1)
    return min(_FIRST_WAIT * doublings, _LONGEST_WAIT)


def meeting_port(replica_id: UUID, run: int) -> int:
    """Another one for each run. Where somebody has it already, the run breaks and the next one has another."""
    content = hashlib.sha256(f"{replica_id}/{run}".encode()).digest()
    return FIRST_PORT + int.from_bytes(content[:8], "big") % PORTS


def whole_state(leader_state: str, part_states: Sequence[str]) -> str:
    """Stopped is only what has stopped everywhere: until then its memory is not free."""
    has_stopped = all(state == STOPPED for state in part_states)
    return "draining" if leader_state == STOPPED and not has_stopped else leader_state

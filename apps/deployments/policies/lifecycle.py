"""The life of a replica as one table: what may follow a state, how long it may last, and what it means if it lasts.

        pending → placed → fetching → starting → warming → ready ⇄ degraded
                                                  draining ⇅
                                                          sleeping
    any with a node → draining → stopped; any → failed, and from there again starting; unknown while its node is silent

The control plane says pending and placed, and unknown; every other word is the agent's. A word that cannot follow is
not believed: it is of a process that was there before.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

PENDING, PLACED, FETCHING, STARTING, WARMING = "pending", "placed", "fetching", "starting", "warming"
READY, DEGRADED, DRAINING, SLEEPING = "ready", "degraded", "draining", "sleeping"
STOPPED, FAILED, UNKNOWN = "stopped", "failed", "unknown"

_RISING = (PLACED, FETCHING, STARTING, WARMING)
_SERVING = (READY, DEGRADED, SLEEPING)
_ENDING = (DRAINING, STOPPED, FAILED)


@dataclass(frozen=True, kw_only=True, slots=True)
class StateRule:
    """`limit` None: it may last. `alarm` is what to tell once it has lasted longer."""

    followers: tuple[str, ...]
    limit: timedelta | None = None
    alarm: str = ""


TABLE = {
    PENDING: StateRule(
        followers=(PLACED,),
        limit=timedelta(minutes=5),
        alarm="no place was found for it",
    ),
    PLACED: StateRule(
        followers=(*_RISING, *_SERVING, *_ENDING, UNKNOWN),
        limit=timedelta(minutes=2),
        alarm="its agent has not begun to start it",
    ),
    FETCHING: StateRule(
        followers=(STARTING, WARMING, READY, *_ENDING, PLACED, UNKNOWN),
        limit=timedelta(hours=2),
        alarm="its weights have been on their way for too long",
    ),
    STARTING: StateRule(
        followers=(PLACED, FETCHING, WARMING, READY, DEGRADED, SLEEPING, *_ENDING, UNKNOWN),
        limit=timedelta(minutes=25),
        alarm="its engine loads for too long",
    ),
    WARMING: StateRule(
        followers=(*_SERVING, STARTING, *_ENDING, UNKNOWN),
        limit=timedelta(minutes=10),
        alarm="its engine is up, and answers no real request",
    ),
    READY: StateRule(followers=(*_RISING, DEGRADED, SLEEPING, *_ENDING, UNKNOWN)),
    DEGRADED: StateRule(
        followers=(*_RISING, READY, SLEEPING, *_ENDING, UNKNOWN),
        limit=timedelta(minutes=2),
        alarm="it makes no progress, and is neither well nor ended",
    ),
    DRAINING: StateRule(
        followers=(*_RISING, *_SERVING, STOPPED, FAILED, UNKNOWN),
        limit=timedelta(minutes=5),
        alarm="it has not finished what it had",
    ),
    SLEEPING: StateRule(followers=(*_RISING, READY, *_ENDING, UNKNOWN)),
    STOPPED: StateRule(followers=(*_RISING, READY, FAILED, UNKNOWN)),
    FAILED: StateRule(
        followers=(*_RISING, *_SERVING, DRAINING, STOPPED, UNKNOWN),
        limit=timedelta(minutes=5),
        alarm="it does not come up",
    ),
    UNKNOWN: StateRule(
        followers=(*_RISING, *_SERVING, *_ENDING),
        limit=timedelta(minutes=2),
        alarm="nothing is known of it while its node is silent",
    ),
}
# Its memory is free again, or never was taken.
WITHOUT_ENGINE = (PENDING, STOPPED)


def may_follow(before: str, after: str) -> bool:
    return before == after or after in TABLE[before].followers


def alarm_of(state: str, since: datetime, now: datetime, *, has_given_up: bool = False) -> str:
    """Empty while all is as it should be. It stays true while it stands, and so says no age."""
    rule = TABLE[state]
    if has_given_up:
        return "it crashed too often, and is not started again until somebody asks for it"
    if rule.limit is None or now - since <= rule.limit:
        return ""
    return f"{rule.alarm} (for more than {_minutes(rule.limit)})"


def _minutes(span: timedelta) -> str:
    return f"{span.total_seconds() / 60:.0f} min"

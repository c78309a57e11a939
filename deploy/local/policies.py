"""Pure decisions of the supervisor: when to start a process again, when to give up, how long a stop may take."""

from dataclasses import dataclass, replace

FIRST_DELAY_S = 0.2
LONGEST_DELAY_S = 10.0
SETTLED_AFTER_S = 30.0
FAILED_STARTS_ALLOWED = 4
STOP_LIMIT_S = 9.0


@dataclass(frozen=True)
class ExitHistory:
    """`failures` counts exits in a row that came before the process had settled."""

    restarts: int = 0
    failures: int = 0
    was_ready: bool = False


@dataclass(frozen=True)
class Restart:
    delay_s: float
    history: ExitHistory


@dataclass(frozen=True)
class GiveUp:
    """Only before a process was ever ready: then starting it again will not help, and a person waits for an answer."""


def after_exit(history: ExitHistory, *, ran_for_s: float) -> Restart | GiveUp:
    failures = 1 if ran_for_s >= SETTLED_AFTER_S else history.failures + 1
    if not history.was_ready and failures >= FAILED_STARTS_ALLOWED:
        return GiveUp()
    delay_s = min(LONGEST_DELAY_S, FIRST_DELAY_S * 2.0 ** (failures - 1))
    return Restart(delay_s, replace(history, restarts=history.restarts + 1, failures=failures))


def kill_at_s(stage: int, stages: int) -> float:
    """When, counted from the start of the stop, the processes of a stage are killed if they have not ended."""
    return STOP_LIMIT_S * (stage + 1) / stages

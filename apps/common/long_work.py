"""Work of the controller that may take minutes, beside which there are always threads for what must not wait."""

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import Event, Lock
from typing import ParamSpec, TypeVar

from django.db import Error as DatabaseError
from django.db import connection

P = ParamSpec("P")
R = TypeVar("R")

PATIENCE = "15min"


def patient(work: Callable[P, R]) -> Callable[P, R]:
    """For what nobody waits for: each of its statements may take PATIENCE.

    Cut off as soon as those that somebody waits for are, on a machine at its limit a batch would begin again for ever.
    """

    @wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        _set_statement_timeout(PATIENCE)
        try:
            return work(*args, **kwargs)
        finally:
            with suppress(DatabaseError):  # one that is broken is not used again
                _set_statement_timeout(None)

    return run


def _set_statement_timeout(longest: str | None) -> None:
    """None: as the session began."""
    with connection.cursor() as cursor:
        cursor.execute("RESET statement_timeout" if longest is None else f"SET statement_timeout = '{longest}'")


def one_at_a_time(work: Callable[[], None]) -> Callable[[], None]:
    """For a loop that its timer starts again: what is called while it runs in this process returns at once.

    Else a few long ones took every thread, and a revoked key went on until they had ended.
    """
    lock = Lock()

    @wraps(work)
    def run() -> None:
        if not lock.acquire(blocking=False):
            return
        try:
            work()
        finally:
            lock.release()

    return run


def once_more_if_asked(work: Callable[[], None]) -> Callable[[], None]:
    """For a loop that a commit wakes: what is called while it runs has it run once more, for it may have read before.

    Else a revoked key waited for the timer of whoever publishes.
    """
    running, asked = Lock(), Event()

    @wraps(work)
    def run() -> None:
        asked.set()
        while asked.is_set() and running.acquire(blocking=False):
            try:
                asked.clear()
                work()
            finally:
                running.release()

    return run

"""Reading what belongs together as it was at one moment: several questions, or very many rows a few at a time."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from django.db import connection, transaction
from django.db.models import Model, QuerySet
from psycopg import IsolationLevel

MOST_IDLE = "60s"
T = TypeVar("T")
M = TypeVar("M", bound=Model)


@contextmanager
def one_look() -> Iterator[None]:
    """All that is asked within is answered from one moment, so that parts add up to their whole while records come.

    For reading only. Within a transaction that has begun already its moments are that one's.
    """
    if connection.in_atomic_block:
        yield
        return
    connection.close_if_health_check_failed()
    connection.ensure_connection()
    session = connection.connection
    usual, session.isolation_level = session.isolation_level, IsolationLevel.REPEATABLE_READ
    try:
        with transaction.atomic():
            yield
    finally:
        if not session.closed:
            session.isolation_level = usual


def in_one_look(rows: QuerySet[M, T], *, chunk_rows: int) -> Iterator[T]:
    """Within a transaction of its own, from a cursor that ends with it.

    Outside of one the database would first put all rows aside, which of millions takes longer than a statement may. A
    reader that takes nothing for MOST_IDLE loses the connection, and with it the rest.
    """
    with transaction.atomic():
        limit_idle_time()
        yield from rows.iterator(chunk_size=chunk_rows)


def limit_idle_time() -> None:
    """Of the transaction that has begun, for what is read as fast as somebody takes it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [MOST_IDLE])

"""Reading very many rows as they were at one moment, a few at a time."""

from collections.abc import Iterator
from typing import TypeVar

from django.db import connection, transaction
from django.db.models import Model, QuerySet

MOST_IDLE = "60s"
T = TypeVar("T")
M = TypeVar("M", bound=Model)


def in_one_look(rows: QuerySet[M, T], *, chunk_rows: int) -> Iterator[T]:
    """Within a transaction of its own, from a cursor that ends with it.

    Outside of one the database would first put all rows aside, which of millions takes longer than a statement may. A
    reader that takes nothing for MOST_IDLE loses the connection, and with it the rest.
    """
    with transaction.atomic():
        _limit_idle_time()
        yield from rows.iterator(chunk_size=chunk_rows)


def _limit_idle_time() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, true)", [MOST_IDLE])

"""Which tenants' rows the work at hand may see: the second wall, which Postgres keeps (row_security.py).

Nothing, unless somebody says so: a page and a REST view say `see_rows_of` their actor, a loop that serves every tenant
says `every_tenant`. Each transaction, and each statement outside of one, tells Postgres before it asks for anything, so
that a connection may be pooled and shared.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any
from uuid import UUID

from django.db import transaction
from psycopg.pq import TransactionStatus

from apps.common.actors import Actor

SETTING = "tokenyard.tenants"
EVERY = "*"
NONE = ""
_visible: ContextVar[str] = ContextVar("visible_tenants", default=NONE)


@contextmanager
def every_tenant() -> Iterator[None]:
    """For work that is no single tenant's: control loops, the agents' link, looking up who somebody is."""
    yield from _within(EVERY)


@contextmanager
def no_tenant() -> Iterator[None]:
    yield from _within(NONE)


@contextmanager
def rows_visible(visible: str) -> Iterator[None]:
    """What `visible_rows` was when it was asked."""
    yield from _within(visible)


def see_rows_of(actor: Actor) -> None:
    """From here to the end of the request."""
    _visible.set(EVERY if actor.is_operator or actor.is_finance else ",".join(map(str, actor.roles)))


def see_also(tenant_id: UUID) -> None:
    """A tenant that is about to be made by who may make it."""
    if _visible.get() != EVERY:
        _visible.set(",".join(filter(None, [_visible.get(), str(tenant_id)])))


def visible_rows() -> str:
    return _visible.get()


def keep_visible(chunks: Iterator[Any], visible: str) -> Iterator[Any]:
    """A streamed answer is read after its request; each chunk is made with the rows that the request could see."""
    while True:
        token = _visible.set(visible)
        try:
            chunk = next(chunks)
        except StopIteration:
            return
        finally:
            _visible.reset(token)
        yield chunk


def tell_postgres(execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: dict[str, Any]) -> Any:
    """Django's execute wrapper: makes sure that Postgres knows the scope in this very transaction."""
    connection = context["connection"]
    if connection.in_atomic_block or not connection.get_autocommit():
        _tell(connection)
        return execute(sql, params, many, context)
    with transaction.atomic(using=connection.alias):
        _tell(connection)
        return execute(sql, params, many, context)


def _tell(connection: Any) -> None:
    """Not again within a transaction, unless the scope is another or a savepoint took back what was said since."""
    status = connection.connection.info.transaction_status
    if status == TransactionStatus.INERROR:
        return
    visible, where = _visible.get(), tuple(connection.savepoint_ids)
    told, told_where = getattr(connection, "told_rows", (None, ()))
    holds = status == TransactionStatus.INTRANS and told == visible and where[: len(told_where)] == told_where
    if not holds:
        connection.connection.execute("SELECT set_config(%s, %s, true)", [SETTING, visible])
        connection.told_rows = (visible, where)


def _within(visible: str) -> Iterator[None]:
    token = _visible.set(visible)
    try:
        yield
    finally:
        _visible.reset(token)

"""Puts a trigger on each watched table after `migrate`, so that no write, of whatever code, is missed."""

from collections.abc import Iterator
from typing import Any

from django.db import connection
from psycopg import sql

from apps.rest.policies.kinds import WATCHED, Watched

_TRIGGER = "note_change"
# Without pg_temp at its end a table of the session's own, and a trigger on that, would come first.
_FUNCTION = """
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE r record;
BEGIN
  IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;
  INSERT INTO rest_change (transaction, kind, object_id, tenant_id, is_gone, at) VALUES {rows};
  RETURN NULL;
END $$
"""
_ROW = "(pg_current_xact_id()::text::bigint, {kind}, r.{key}, {tenant}, {is_gone}, clock_timestamp())"
_COLUMNS = """
SELECT attname FROM pg_attribute
WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""


def watch_tables(**_: Any) -> None:
    """Doing it again changes nothing. A table that is not there yet is watched after the migration that makes it."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regclass('rest_change')")
        if cursor.fetchone()[0] is None:
            return
        for watched in WATCHED:
            cursor.execute(_COLUMNS, [watched.table])
            columns = [name for (name,) in cursor.fetchall()]
            if columns:
                _watch(cursor, watched, [name for name in columns if name not in watched.quiet])


def _watch(cursor: Any, watched: Watched, columns: list[str]) -> None:
    table, function = sql.Identifier(watched.table), sql.Identifier(f"{_TRIGGER}_{watched.table}")
    cursor.execute(sql.SQL(_FUNCTION).format(function=function, rows=sql.SQL(", ").join(_rows(watched))))
    for name, event, when in _events(columns):
        trigger = sql.Identifier(f"{_TRIGGER}_{name}")
        cursor.execute(sql.SQL("DROP TRIGGER IF EXISTS {} ON {}").format(trigger, table))
        create = sql.SQL("CREATE TRIGGER {} AFTER {} ON {} FOR EACH ROW {} EXECUTE FUNCTION {}()")
        cursor.execute(create.format(trigger, sql.SQL(event), table, when, function))


def _rows(watched: Watched) -> Iterator[sql.Composed]:
    tenant = sql.SQL("r.{}").format(sql.Identifier(watched.tenant)) if watched.tenant else sql.SQL("NULL::uuid")
    own = sql.SQL("TG_OP = 'DELETE'")
    for kind, key, is_gone in [
        (watched.table, watched.key, own),
        *((kind, column, sql.SQL("false")) for column, kind in watched.parents),
    ]:
        yield sql.SQL(_ROW).format(kind=sql.Literal(kind), key=sql.Identifier(key), tenant=tenant, is_gone=is_gone)


def _events(columns: list[str]) -> Iterator[tuple[str, str, sql.Composable]]:
    """An update that leaves every column as it was, or changes only quiet ones, is none."""
    old, new = (sql.SQL(", ").join(sql.Identifier(row, name) for name in columns) for row in ("old", "new"))
    differs = sql.SQL("WHEN (ROW({}) IS DISTINCT FROM ROW({}))").format(old, new)
    yield "of_rows", "INSERT OR DELETE", sql.SQL("")
    yield "of_updates", "UPDATE", differs

"""The database of files and batches, and how it is read and written: durably, one thread at a time."""

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from workers.contracts import layout

LOCKED_TIMEOUT_S = 10.0
_KEYS = {"files": "file_id", "batches": "batch_id"}
_CREATED_AT = "json_extract(content, '$.created_at')"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS files (
  number INTEGER PRIMARY KEY AUTOINCREMENT, file_id TEXT NOT NULL UNIQUE, tenant_id TEXT NOT NULL,
  purpose TEXT NOT NULL, size_bytes INTEGER NOT NULL, expires_at INTEGER, content TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS files_of_tenant ON files (tenant_id, number);
CREATE TABLE IF NOT EXISTS batches (
  number INTEGER PRIMARY KEY AUTOINCREMENT, batch_id TEXT NOT NULL UNIQUE, tenant_id TEXT NOT NULL,
  status TEXT NOT NULL, created_at INTEGER NOT NULL, input_file_id TEXT NOT NULL, content TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS batches_of_tenant ON batches (tenant_id, number);
CREATE INDEX IF NOT EXISTS batches_by_status ON batches (status, number);
CREATE TABLE IF NOT EXISTS items (
  batch_id TEXT NOT NULL, number INTEGER NOT NULL, custom_id TEXT NOT NULL, start INTEGER NOT NULL,
  length_bytes INTEGER NOT NULL, line BLOB, is_failed INTEGER, record BLOB,
  PRIMARY KEY (batch_id, number)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS unrecorded ON items (batch_id, number) WHERE record IS NOT NULL;
"""


class Database:
    def __init__(self, file: Path) -> None:
        self._connection = sqlite3.connect(
            file, timeout=LOCKED_TIMEOUT_S, check_same_thread=False, isolation_level=None
        )
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.executescript(_SCHEMA)
        self.execute = self._connection.execute
        self.execute_many = self._connection.executemany
        self.close = self._connection.close

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.execute("ROLLBACK")
            raise
        self.execute("COMMIT")

    def one(self, sql: str, *values: Any) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self.execute(sql, values).fetchone()
        return row

    def page(
        self,
        table: str,
        tenant_id: str,
        *,
        after: str,
        bound: int | None,
        limit: int,
        newest_first: bool,
        purpose: str = "",
    ) -> list[str] | None:
        values: list[Any]
        where, values = ["tenant_id = ?"], [tenant_id]
        if after:
            found = self.one(f"SELECT number FROM {table} WHERE {_KEYS[table]} = ? AND tenant_id = ?", after, tenant_id)  # noqa: S608
            if found is None:
                return None
            where.append("number < ?" if newest_first else "number > ?")
            values.append(found[0])
        if bound is not None:
            where.append(f"{_CREATED_AT} {'<' if newest_first else '>'} ?")
            values.append(bound)
        if purpose:
            where.append("purpose = ?")
            values.append(purpose)
        order = "DESC" if newest_first else "ASC"
        sql = f"SELECT content FROM {table} WHERE {' AND '.join(where)} ORDER BY number {order} LIMIT ?"  # noqa: S608
        return [content for (content,) in self.execute(sql, (*values, limit))]

    def created_at(self, table: str, name: str) -> int | None:
        found = self.one(f"SELECT {_CREATED_AT} FROM {table} WHERE {_KEYS[table]} = ?", name)  # noqa: S608 - our words
        return found[0] if found else None


def write_durably(path: Path, pieces: Iterable[bytes]) -> int:
    """Whole or not at all, whatever happens; returns its size."""
    temporary = path.with_name(f".{path.name}")
    size_bytes = 0
    with temporary.open("wb") as file:
        for piece in pieces:
            size_bytes += file.write(piece)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    layout.sync_directory(path.parent)
    return size_bytes

"""Tables as files: CSV as it is read from the database, Parquet with a type per column."""

import io
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from django.http import StreamingHttpResponse

from apps.common.csv_text import csv_parts
from apps.usage.policies.tables import Column, Kind, Table

CHUNK_ROWS = 2000
_GROUP_ROWS = 10_000
_TYPES: dict[Kind, pa.DataType] = {
    "text": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "money": pa.decimal128(38, 12),
    "unit_price": pa.decimal128(38, 20),
    "flag": pa.bool_(),
    "moment": pa.timestamp("us", tz="UTC"),
    "day": pa.date32(),
}


def csv_answer(name: str, header: Sequence[str], rows: Iterable[Any]) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(csv_parts(header, rows), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def parquet_answer(name: str, table: Table) -> StreamingHttpResponse:
    answer = StreamingHttpResponse(parquet_parts(table), content_type="application/vnd.apache.parquet")
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


class _Written(io.RawIOBase):
    """Takes what is written until somebody asks for it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        self._parts.append(bytes(part))
        return len(self._parts[-1])

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def parquet_parts(table: Table) -> Iterator[bytes]:
    """As they are written: however large the table, memory holds one group of rows, and the first comes at once.

    Where the rows fail, the last part, without which it is no Parquet, never comes.
    """
    schema = pa.schema([pa.field(column.name, _TYPES[column.kind]) for column in table.columns])
    written = _Written()
    with pq.ParquetWriter(pa.PythonFile(written, mode="w"), schema) as writer:
        for rows in _chunks(table.rows()):
            writer.write_table(_arrow(rows, table.columns, schema))
            yield written.taken()
    yield written.taken()


def _chunks(rows: Iterator[Sequence[Any]]) -> Iterator[list[Sequence[Any]]]:
    while chunk := list(islice(rows, _GROUP_ROWS)):
        yield chunk


def _arrow(rows: list[Sequence[Any]], columns: Sequence[Column], schema: pa.Schema) -> pa.Table:
    arrays = [
        pa.array((_typed(row[place], column.kind) for row in rows), _TYPES[column.kind])
        for place, column in enumerate(columns)
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _typed(value: Any, kind: Kind) -> Any:
    return str(value) if kind == "text" and value is not None else value

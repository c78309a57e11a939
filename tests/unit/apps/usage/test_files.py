"""Parquet is sent while it is written, and what breaks off is no Parquet."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from apps.usage.api.files import parquet_parts
from apps.usage.policies.tables import Column, Table

pytestmark = pytest.mark.unit

ROWS = 25_000


def table(rows):
    return Table([Column("number", "integer"), Column("name")], rows)


def test_parquet_comes_in_parts_while_rows_are_read():
    asked = []
    parts = parquet_parts(table(lambda: (asked.append(number) or (number, str(number)) for number in range(ROWS))))
    first = next(parts)
    assert 0 < len(asked) < ROWS
    found = pq.read_table(io.BytesIO(b"".join([first, *parts]))).to_pylist()
    assert found == [{"number": number, "name": str(number)} for number in range(ROWS)]


def test_parquet_of_nothing_has_its_columns():
    assert pq.read_table(io.BytesIO(b"".join(parquet_parts(table(lambda: iter(())))))).column_names == [
        "number",
        "name",
    ]


def test_what_breaks_off_cannot_be_taken_for_the_whole():
    def rows():
        yield from ((number, "") for number in range(ROWS))
        raise OSError("the database is gone")

    got = []
    with pytest.raises(OSError, match="gone"):
        got.extend(parquet_parts(table(rows)))
    with pytest.raises(pa.ArrowInvalid):
        pq.read_table(io.BytesIO(b"".join(got)))

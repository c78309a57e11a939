"""CSV that spreadsheets may open: a text that they would run as a formula is quoted with an apostrophe."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20")  # the last in full width

_PART_LINES = 500


class _Echo:
    def write(self, line: str) -> str:
        return line


def csv_parts(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The header, then many lines at a time: a part costs a web process as much as a line would."""
    writer: Any = csv.writer(_Echo())
    yield writer.writerow(header)
    lines = (writer.writerow([_safe(value) for value in row]) for row in rows)
    while part := "".join(islice(lines, _PART_LINES)):
        yield part


def _safe(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")  # as text small amounts would get an exponent
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value

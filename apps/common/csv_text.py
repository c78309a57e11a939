"""CSV that spreadsheets may open: a text that they would run as a formula is quoted with an apostrophe."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", *"\uff1d\uff0b\uff0d\uff20")  # the last in full width


class _Echo:
    def write(self, line: str) -> str:
        return line


def csv_lines(header: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    writer: Any = csv.writer(_Echo())
    yield writer.writerow(header)
    for row in rows:
        yield writer.writerow([_safe(value) for value in row])


def _safe(value: Any) -> Any:
    if isinstance(value, Decimal):
        return format(value, "f")  # as text small amounts would get an exponent
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value

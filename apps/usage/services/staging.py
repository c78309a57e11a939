"""Rows on their way into Postgres: copied into a table of the session's own, from which one statement takes them.

COPY is the cheapest way in, and it cannot leave out what is there already or add to sums; the statement can.
"""

from collections.abc import Iterable, Mapping, Sequence
from operator import le

from django.db import connection


class Staging:
    """A temporary table with `columns` and their types. It is empty at the end of each transaction."""

    def __init__(self, table: str, columns: Mapping[str, str]) -> None:
        typed = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self._make = f"CREATE TEMPORARY TABLE IF NOT EXISTS {table} ({typed}) ON COMMIT DELETE ROWS"
        self._clear = f"DELETE FROM {table}"  # noqa: S608 - a name of ours; a transaction may stage twice
        self._copy = f"COPY {table} FROM STDIN WITH (FORMAT csv, NULL 'None')"

    def fill(self, lines: Iterable[str]) -> None:
        """Lines of CSV as `csv_line` makes them, in the order of the columns. Within a transaction."""
        with connection.cursor() as cursor:
            cursor.execute(self._make)
            cursor.execute(self._clear)
            with cursor.copy(self._copy) as copy:
                copy.write("".join(lines))


def csv_line(values: Iterable[object]) -> str:
    """None is NULL. A text that somebody else chose goes through `quoted` first."""
    return ",".join(map(str, values)) + "\n"


def quoted(texts: Sequence[str], limits: Sequence[int]) -> str:
    """As so many values of a line, each no longer than its limit."""
    joined = '","'.join(texts)
    is_plain = joined.count('"') == 2 * (len(texts) - 1) and "\x00" not in joined
    if is_plain and all(map(le, map(len, texts), limits)):
        return f'"{joined}"'
    return ",".join(
        ['"' + clean(text, limit).replace('"', '""') + '"' for text, limit in zip(texts, limits, strict=True)]
    )


def clean(text: str, limit: int) -> str:
    """Postgres stores no NUL, and the client chose some of these texts."""
    return text.replace("\x00", "")[:limit]

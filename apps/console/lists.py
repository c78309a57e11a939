"""A list as its address asks for it: sorted by one of its columns, a page at a time, or whole as a file.

`?sort=name` rises and `?sort=-name` falls; `?after=` names the row that a page follows; `?as=csv` is what the filters
leave. A page stays put while rows come and go.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from uuid import UUID

from django.db.models import F, Model, Q, QuerySet
from django.http import HttpResponseBase, QueryDict, StreamingHttpResponse

from apps.common.csv_text import csv_parts
from apps.console.usage_query import read_id, read_text

Row = TypeVar("Row", bound=Model)
PAGE_SIZE = 50
CSV_ROWS = 10_000


@dataclass(frozen=True)
class Sorting:
    """`path` is that of the column in the database. What an address asks for that no column has is the default."""

    name: str
    path: str
    is_falling: bool = False

    @property
    def order(self) -> Any:
        return F(self.path).desc(nulls_last=True) if self.is_falling else F(self.path).asc(nulls_last=True)


@dataclass(frozen=True)
class Listing(Generic[Row]):
    """A page of rows, and what the page says of it: `next` is the `after` of the page that follows."""

    rows: list[Row]
    sorting: Sorting
    next: UUID | None = None
    is_first: bool = True
    columns: Mapping[str, str] = field(default_factory=dict)


def read_sorting(params: QueryDict, columns: Mapping[str, str], *, default: str) -> Sorting:
    asked = read_text(params, "sort")
    name = asked.removeprefix("-")
    if name not in columns:
        asked, name = default, default.removeprefix("-")
    return Sorting(name, columns[name], asked.startswith("-"))


def list_page(
    rows: QuerySet[Row], params: QueryDict, columns: Mapping[str, str], *, default: str, identity: str = "pk"
) -> Listing[Row]:
    """`columns` are those that may be sorted by, with their paths; `identity` is the field that names a row."""
    sorting, after = read_sorting(params, columns, default=default), read_id(params, "after")
    later = rows.filter(_follows(rows, sorting, after, identity)) if after else rows
    found = list(later.order_by(sorting.order, identity)[: PAGE_SIZE + 1])
    following = getattr(found[PAGE_SIZE - 1], identity) if len(found) > PAGE_SIZE else None
    return Listing(found[:PAGE_SIZE], sorting, following, after is None, columns)


def sorted_rows(rows: QuerySet[Row], params: QueryDict, columns: Mapping[str, str], *, default: str) -> QuerySet[Row]:
    """The same rows as list_page's pages, at most CSV_ROWS of them."""
    return rows.order_by(read_sorting(params, columns, default=default).order, "pk")[:CSV_ROWS]


def csv_answer(name: str, columns: Mapping[str, Callable[[Any], Any]], rows: Iterable[Any]) -> HttpResponseBase:
    """At most CSV_ROWS rows, each column as its function of a row says."""
    lines = ([value(row) for value in columns.values()] for row in rows)
    answer = StreamingHttpResponse(csv_parts(list(columns), lines), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = f'attachment; filename="{name}.csv"'
    return answer


def is_csv(params: QueryDict) -> bool:
    return params.get("as") == "csv"


def _follows(rows: QuerySet[Any], sorting: Sorting, after: UUID, identity: str) -> Q:
    """Of rows in this order, those behind that one; all of them where it is gone. What has no value comes last."""
    here = rows.filter(**{identity: after})
    last = here.order_by().values_list(sorting.path, flat=True).first()
    if last is None and not here.exists():
        return Q()
    behind = Q(**{f"{identity}__gt": after})
    unknown = Q(**{f"{sorting.path}__isnull": True})
    if last is None:
        return unknown & behind
    further = Q(**{f"{sorting.path}__{'lt' if sorting.is_falling else 'gt'}": last})
    return further | (Q(**{sorting.path: last}) & behind) | unknown

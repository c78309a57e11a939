"""Lists in pages that stay put while rows come and go: each page is named by the row that it follows."""

from typing import TypeVar
from uuid import UUID

from django.db.models import Model, Q, QuerySet

Row = TypeVar("Row", bound=Model)
PAGE_SIZE = 50


def newest_first(rows: QuerySet[Row], *, before: UUID | None) -> tuple[list[Row], UUID | None]:
    """A page, and the `before` of the next one; None when this is the last. Ids sort by time."""
    older = rows.filter(pk__lt=before) if before else rows
    return _page(list(older.order_by("-pk")[: PAGE_SIZE + 1]))


def by_name(rows: QuerySet[Row], *, after: UUID | None, name: str = "name") -> tuple[list[Row], UUID | None]:
    """The same for rows that have a name, in the field `name`, and are in its order."""
    last = rows.filter(pk=after).values_list(name, flat=True).first() if after else None
    later = rows if last is None else rows.filter(Q(**{f"{name}__gt": last}) | Q(**{name: last}, pk__gt=after))
    return _page(list(later.order_by(name, "pk")[: PAGE_SIZE + 1]))


def _page(found: list[Row]) -> tuple[list[Row], UUID | None]:
    has_more = len(found) > PAGE_SIZE
    return found[:PAGE_SIZE], found[PAGE_SIZE - 1].pk if has_more else None

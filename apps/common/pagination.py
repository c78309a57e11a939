from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from rest_framework.exceptions import NotFound
from rest_framework.pagination import Cursor, CursorPagination, _reverse_ordering
from rest_framework.request import Request

from apps.common.errors import InvalidInputError, NotFoundError

_DIGITS = 9
_BETWEEN = ","


def behind(ordering: Sequence[str], place: Sequence[Any]) -> Q:
    """What follows the row of these values, in an order by one column, or by two of one direction.

    Together the columns are unique, so that rows of the same moment, however many, each have a place of their own.
    """
    names, way = [each.removeprefix("-") for each in ordering], "lt" if ordering[0].startswith("-") else "gt"
    if len(names) == 1:
        return Q(**{f"{names[0]}__{way}": place[0]})
    beyond = Q(**{f"{names[0]}__{way}": place[0]}) | Q(**{f"{names[1]}__{way}": place[1]})
    return Q(**{f"{names[0]}__{way}e": place[0]}) & beyond  # the first condition is one that an index knows


class NewestFirst(CursorPagination):
    """By id, which is a UUIDv7 and so sorts by time: pages stay put while rows arrive.

    Unlike its base a cursor names a row by all columns of the order, and never an offset, which would have an end.
    """

    ordering: str | tuple[str, ...] = "-id"
    page_size = 50
    page_size_query_param = "page_size"
    max_page_size = 500

    def get_page_size(self, request: Request) -> int | None:
        """What is no number is refused, as a misspelt filter is."""
        text = request.query_params.get(self.page_size_query_param)
        if text is not None and not (text.isascii() and text.isdigit() and int(text[:_DIGITS]) > 0):
            raise InvalidInputError("page_size is a number from 1", fields={"page_size": "is a number from 1"})
        return super().get_page_size(request)

    def decode_cursor(self, request: Request) -> Any:
        """No schema says which cursors there are: one that no page has named is not found, and not ill-formed."""
        try:
            return super().decode_cursor(request)
        except NotFound as error:
            raise _bad_cursor() from error

    def paginate_queryset(self, queryset: Any, request: Request, view: Any = None) -> list[Any] | None:
        self.base_url = request.build_absolute_uri()
        self.page_size = self.get_page_size(request) or self.page_size
        self.ordering = self.get_ordering(request, queryset, view)
        self.cursor = self.decode_cursor(request)
        is_backwards = self.cursor is not None and self.cursor.reverse
        found = list(self._rows(queryset, is_backwards=is_backwards)[: self.page_size + 1])
        has_more, has_come_from = len(found) > self.page_size, self.cursor is not None
        self.shown = found[: self.page_size]
        self.has_next, self.has_previous = (has_more, has_come_from)
        if is_backwards:
            self.shown.reverse()
            self.has_next, self.has_previous = (has_come_from, has_more)
        return self.shown

    def get_next_link(self) -> str | None:
        return self._link(self.shown[-1:], reverse=False) if self.has_next else None

    def get_previous_link(self) -> str | None:
        return self._link(self.shown[:1], reverse=True) if self.has_previous else None

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        parameters = super().get_schema_operation_parameters(view)
        for each in parameters:
            if each["name"] == self.page_size_query_param:
                each["schema"]["minimum"] = 1
        return parameters

    def _rows(self, queryset: QuerySet[Any], *, is_backwards: bool) -> QuerySet[Any]:
        ordering = _reverse_ordering(self.ordering) if is_backwards else self.ordering
        rows = queryset.order_by(*ordering)
        if self.cursor is None or self.cursor.position is None:
            return rows
        return rows.filter(behind(ordering, self._place(queryset, str(self.cursor.position))))

    def _place(self, queryset: QuerySet[Any], position: str) -> list[Any]:
        texts, names = position.split(_BETWEEN), [each.removeprefix("-") for each in self.ordering]
        if len(texts) != len(names):
            raise _bad_cursor()
        try:
            columns = map(queryset.model._meta.get_field, names)  # noqa: SLF001 - Django's documented way
            return [column.to_python(text) for column, text in zip(columns, texts, strict=True)]
        except ValidationError as error:  # a position that is no value of its column
            raise _bad_cursor() from error

    def _link(self, last: list[Any], *, reverse: bool) -> str:
        """Of a page without rows, all of which have gone meanwhile, the list's other end."""
        position: Any = self._get_position_from_instance(last[0], self.ordering) if last else None
        link: str = self.encode_cursor(Cursor(offset=0, reverse=reverse, position=position))
        return link

    def _get_position_from_instance(self, instance: Any, ordering: Sequence[str]) -> str:
        return _BETWEEN.join(str(getattr(instance, each.removeprefix("-"))) for each in ordering)


def _bad_cursor() -> NotFoundError:
    return NotFoundError("cursor is none that a page has named", fields={"cursor": "is none that a page has named"})


class NewestRecordsFirst(NewestFirst):
    """By arrival, which usage records are stored and indexed by."""

    ordering = ("-arrived_at", "-record_id")

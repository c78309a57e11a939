from typing import Any

from django.core.exceptions import ValidationError
from rest_framework.exceptions import NotFound
from rest_framework.pagination import CursorPagination
from rest_framework.request import Request

from apps.common.errors import InvalidInputError, NotFoundError

_DIGITS = 9


class NewestFirst(CursorPagination):
    """By id, which is a UUIDv7 and so sorts by time: pages stay put while rows arrive."""

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
        try:
            return super().paginate_queryset(queryset, request, view)
        except ValidationError as error:  # a position that is no value of its column
            raise _bad_cursor() from error

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        parameters = super().get_schema_operation_parameters(view)
        for each in parameters:
            if each["name"] == self.page_size_query_param:
                each["schema"]["minimum"] = 1
        return parameters


def _bad_cursor() -> NotFoundError:
    return NotFoundError("cursor is none that a page has named", fields={"cursor": "is none that a page has named"})


class NewestRecordsFirst(NewestFirst):
    """By arrival, which usage records are stored and indexed by."""

    ordering = ("-arrived_at", "-record_id")

"""The conventions around each handler of a REST view. Views take them by their base and say nothing of them."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from apps.common.errors import InvalidInputError
from apps.common.pagination import NewestFirst
from apps.common.rows import visible_rows
from apps.rest.conventions.listing import filtered, filters_of
from apps.rest.conventions.rates import asker_of, rate_headers
from apps.rest.conventions.writing import Writes
from apps.rest.policies.conditions import is_unchanged, tag_of
from apps.rest.policies.diffing import without_shown_once
from apps.rest.selectors.changes import get_newest_position

WRITE_METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
RESOURCE_VERSION = "Resource-Version"
_OK = 200
_CREATED = 201


class ConventionalView(APIView):
    """`reported` are fields of its answer that nobody sets: an If-Match does not look at them.

    `has_own_filters` is for a list that reads its query itself, `describes_itself` for what says in its own words what
    a dry run would do; `tags_created` for what answers with the thing that it made, as GET shows it.
    """

    pagination_class: type[NewestFirst] = NewestFirst
    reported: ClassVar[frozenset[str]] = frozenset()
    has_own_filters: ClassVar[bool] = False
    describes_itself: ClassVar[bool] = False
    tags_created: ClassVar[bool] = False

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Django REST framework's own, with the conventions around the handler."""
        self.args, self.kwargs = args, kwargs
        self.request = request = self.initialize_request(request, *args, **kwargs)
        self.headers = self.default_response_headers
        try:
            _refuse_nul(request)
            self.initial(request, *args, **kwargs)
            response = self._answer_by_convention(request, partial(self._handler(request), request, *args, **kwargs))
        except Exception as error:  # noqa: BLE001 - DRF's: each is rendered, or raised again
            response = self.handle_exception(error)
        self.response = self.finalize_response(request, response, *args, **kwargs)
        for name, value in rate_headers(request._request).items():  # noqa: SLF001 - Django's request in DRF's
            self.response[name] = value
        return self.response

    def list_changes_noted(self) -> list[Any]:
        """What the handler has been noted to do, for a dry run."""
        return []

    def may_look(self) -> bool:
        return True

    def paged(self, rows: QuerySet[Any], serializer: type[BaseSerializer[Any]]) -> Response:
        version = get_newest_position()
        _refuse_odd_watch(self.request.query_params)
        if not self.has_own_filters:
            rows = filtered(rows, serializer, self.request.query_params)
        pages = self.pagination_class()
        page = pages.paginate_queryset(rows, self.request, view=self)
        response = pages.get_paginated_response(serializer(page, many=True).data)
        response[RESOURCE_VERSION] = str(version)
        if not self.has_own_filters and "id" in filters_of(serializer):
            _tell_watcher(response, rows, self.request)
        return response

    def _handler(self, request: Request) -> Callable[..., Any]:
        name = (request.method or "").lower()
        known = name in self.http_method_names
        handler: Callable[..., Any] = getattr(self, name, self.http_method_not_allowed)
        return handler if known else self.http_method_not_allowed

    def _answer_by_convention(self, request: Request, handler: Callable[[], Any]) -> Any:
        if request.method in WRITE_METHODS and hasattr(self, request.method.lower()):
            writes = Writes(
                request,
                asker=asker_of(request),
                current=self.shown_now,
                now=timezone.now(),
                describes_itself=self.describes_itself,
            )
            done = writes.run(handler, self.list_changes_noted)
            return done if writes.is_dry_run else self._tagged(done)
        response = self._tagged(handler())
        known = request.headers.get("If-None-Match")
        if known and request.method in {"GET", "HEAD"} and is_unchanged(known, response.get("ETag", "")):
            return Response(status=304, headers={"ETag": response["ETag"]})
        return response

    def shown_now(self) -> Response | None:
        """What a write here would change, as GET shows it now, if it is a thing and the asker may see it."""
        found = self.subject() if self.may_look() else None
        shown = self._tagged(found)
        return None if shown is None or hasattr(shown, "kind") or "results" in shown.data else shown

    def subject(self) -> Any:
        """What GET shows here; where there is none, a view may say what it acts upon (and take over its `reported`)."""
        return self.get(self.request, *self.args, **self.kwargs) if hasattr(self, "get") else None

    def _tagged(self, response: Any) -> Any:
        tagged = {_OK, _CREATED} if self.tags_created else {_OK}
        is_content = isinstance(response, Response) and response.status_code in tagged and response.data is not None
        if is_content and "ETag" not in response:
            response["ETag"] = tag_of(without_shown_once(response.data), self.reported)
        return response


def _tell_watcher(response: Any, rows: QuerySet[Any], request: Request) -> None:
    """Of which kind the list is, whose rows it was made of, and who asks: consumers/watch.py goes on from there."""
    response.person = str(request.user.pk)
    response.kind, response.visible = rows.model._meta.db_table, visible_rows()  # noqa: SLF001 - Django's documented API


def _refuse_odd_watch(query: Mapping[str, str]) -> None:
    """What asks to watch never comes here (consumers/watch.py); what only nearly asks is not taken for a list."""
    if query.get("watch", "0").lower() not in {"0", "false"}:
        raise InvalidInputError("watch is 1 or 0", fields={"watch": "is 1 or 0"})


def _refuse_nul(request: Request) -> None:
    """Postgres takes none, wherever it stands."""
    if "\x00" in request.path or any("\x00" in text for pair in _pairs(request.query_params) for text in pair):
        raise InvalidInputError("the address holds a NUL character")


def _pairs(query: Mapping[str, str]) -> list[tuple[str, str]]:
    return list(query.items())

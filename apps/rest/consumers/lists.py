"""A list as its REST view shows it to somebody, asked for in this process: with their rights, filters and fields."""

from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl, urlencode

import msgspec
from django.core.handlers.asgi import ASGIRequest
from django.http.response import HttpResponseBase

from apps.rest.conventions.views import RESOURCE_VERSION

OURS = frozenset({"watch", "resource_version", "cursor", "page_size"})
PAGE_SIZE = 200
_NOT_PASSED_ON = frozenset({b"accept", b"last-event-id", b"if-none-match"})
_OK = 200

Respond = Callable[[ASGIRequest], HttpResponseBase]


class Page(msgspec.Struct):
    results: list[dict[str, Any]] = []
    next: str | None = None


@dataclass(frozen=True)
class Refusal:
    """An answer that is passed on as it is."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


@dataclass(frozen=True)
class Listed:
    """`kind` is "" for what cannot be watched; `person` asks, by session or token."""

    page: Page
    kind: str
    person: str = field(default="", kw_only=True)
    visible: str
    resource_version: str
    cursor: str = field(default="")


def ask(respond: Respond, scope: Mapping[str, Any], words: Mapping[str, str]) -> Listed | Refusal:
    """`words` are added to the watcher's own query. Only the request without any counts for how often who asks."""
    request = ASGIRequest(_asking(scope, words), BytesIO())
    request.is_inner = bool(words)  # type: ignore[attr-defined]  # for conventions/rates.py
    response: Any = respond(request)
    try:
        content = response.content
        if response.status_code != _OK:
            return Refusal(response.status_code, _headers(response), content)
        page = msgspec.json.decode(content, type=Page) if hasattr(response, "kind") else Page()
        return Listed(
            page=page,
            kind=getattr(response, "kind", ""),
            person=getattr(response, "person", ""),
            visible=getattr(response, "visible", ""),
            resource_version=response.get(RESOURCE_VERSION, ""),
            cursor=_cursor_of(page.next),
        )
    finally:
        response.close()


def query_of(scope: Mapping[str, Any]) -> dict[str, str]:
    return dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))


def header_of(scope: Mapping[str, Any], name: bytes) -> str:
    found: Sequence[bytes] = [value for key, value in scope["headers"] if key.lower() == name]
    return found[0].decode("latin-1") if found else ""


def _asking(scope: Mapping[str, Any], words: Mapping[str, str]) -> MutableMapping[str, Any]:
    own = {name: text for name, text in query_of(scope).items() if name not in OURS}
    headers = [(name, value) for name, value in scope["headers"] if name.lower() not in _NOT_PASSED_ON]
    query = urlencode({**own, "page_size": str(PAGE_SIZE), **words})
    return {**scope, "query_string": query.encode(), "headers": headers, "method": "GET"}


def _headers(response: HttpResponseBase) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in response.items()]


def _cursor_of(link: str | None) -> str:
    return dict(parse_qsl(link.partition("?")[2])).get("cursor", "") if link else ""

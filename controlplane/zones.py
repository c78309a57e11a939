"""Pages show times in the reader's own time zone, which the browser tells in a cookie; without one in UTC."""

from collections.abc import Callable
from zoneinfo import ZoneInfo

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

COOKIE = "tokenyard_zone"

Respond = Callable[[HttpRequest], HttpResponseBase]


def reader_zone(get_response: Respond) -> Respond:
    def middleware(request: HttpRequest) -> HttpResponseBase:
        with timezone.override(zone_of(request.COOKIES.get(COOKIE, ""))):
            return get_response(request)

    return middleware


def zone_of(name: str) -> ZoneInfo:
    """What a browser says is anybody's text: a name that no zone has is UTC."""
    try:
        return ZoneInfo(name or "UTC")
    except (OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        return ZoneInfo("UTC")

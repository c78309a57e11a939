from collections.abc import Callable

from django.http import HttpRequest
from django.http.response import HttpResponseBase

Respond = Callable[[HttpRequest], HttpResponseBase]


def keep_nowhere(get_response: Respond) -> Respond:
    """What is answered is of one person at one moment: no browser or proxy keeps it, unless the answer says so."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        response = get_response(request)
        response.headers.setdefault("Cache-Control", "no-store")
        return response

    return middleware

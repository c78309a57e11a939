from collections.abc import Callable, Iterator
from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase, StreamingHttpResponse

from apps.common.rows import keep_visible, no_tenant, visible_rows

Respond = Callable[[HttpRequest], HttpResponseBase]


def begin_without_rows(get_response: Respond) -> Respond:
    """A request sees no tenant's rows until its view has said whose it is, and leaves nothing to the next one."""

    def middleware(request: HttpRequest) -> HttpResponseBase:
        with no_tenant():
            response = get_response(request)
            if isinstance(response, StreamingHttpResponse) and not response.is_async:
                chunks: Iterator[Any] = iter(response.streaming_content)  # type: ignore[arg-type]  # not an async one
                response.streaming_content = keep_visible(chunks, visible_rows())
            return response

    return middleware

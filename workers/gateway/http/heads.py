"""Heads of HTTP messages: what is passed on of them, and how the one before is recognised when it comes again.

A client sends the same head with each request on a connection, and an engine with each answer, but for the length of
the body. Such a message is taken as parsed already: its bytes are those that the parser has accepted before.
"""

import re
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from workers.gateway.front.introduction import Introduction

Headers = list[tuple[bytes, bytes]]

MAX_REMEMBERED_BYTES = 4096
# An engine that has no room now; another one may have.
TURNED_AWAY = (429, 503)
_MAX_DIGITS = 9
_ZERO, _NINE = 48, 57
_LENGTH_LINE = re.compile(rb"\r\ncontent-length: ?([0-9]{1,8})\r\n", re.IGNORECASE)
_END_OF_HEAD = b"\r\n\r\n"

# Headers that speak of one connection or of the client's own credentials, or that are ours to set.
_NOT_UPSTREAM = frozenset(
    b"authorization x-api-key cookie origin host content-length transfer-encoding connection keep-alive expect te"
    b" trailer upgrade proxy-authorization proxy-connection accept-encoding x-request-id traceparent"
    b" x-vllm-priority x-tokenyard-peer x-tokenyard-forwarded x-tokenyard-version x-tokenyard-counted"
    b" x-tokenyard-record".split()
)
_NOT_DOWNSTREAM = frozenset(
    b"connection keep-alive transfer-encoding content-length trailer upgrade"
    b" access-control-allow-origin access-control-allow-credentials".split()
)


class RequestHead:
    """`headers` are as sent, names in lower case; `lines_upstream` is what of them an engine may see.

    `introduction` is what was made of it last; a connection repeats its head.
    """

    __slots__ = (
        "first_by_name",
        "headers",
        "introduction",
        "is_http_10",
        "keeps_alive",
        "line_upstream",
        "lines_upstream",
        "method",
        "path",
        "query",
    )

    def __init__(self, method: bytes, url: bytes, headers: Headers, *, is_http_10: bool, keeps_alive: bool) -> None:
        self.method = method
        self.path, _, self.query = url.partition(b"?")
        self.headers = headers
        self.is_http_10 = is_http_10
        self.keeps_alive = keeps_alive
        self.first_by_name = dict(reversed(headers))
        self.line_upstream = method + b" " + self.target + b" HTTP/1.1\r\n"
        self.lines_upstream = header_lines([header for header in headers if header[0] not in _NOT_UPSTREAM])
        self.introduction: Introduction | None = None

    @property
    def target(self) -> bytes:
        return self.path + b"?" + self.query if self.query else self.path


class AnswerHead:
    """Of an engine's answer; `lines_downstream` is what of its headers a client may see, `shown_names` their names.

    `retry_after_s` is what an engine asks for that takes nothing now; None where it asks for nothing.
    """

    __slots__ = (
        "has_length",
        "is_chunked",
        "is_event_stream",
        "lines_downstream",
        "retry_after_s",
        "shown_names",
        "status",
    )

    def __init__(
        self,
        *,
        status: int,
        shown_names: frozenset[bytes],
        has_length: bool,
        is_chunked: bool,
        lines_downstream: bytes,
        is_event_stream: bool,
        retry_after_s: float | None = None,
    ) -> None:
        self.status = status
        self.shown_names = shown_names
        self.has_length = has_length
        self.is_chunked = is_chunked
        self.lines_downstream = lines_downstream
        self.is_event_stream = is_event_stream
        self.retry_after_s = retry_after_s

    @property
    def turns_away(self) -> bool:
        return self.status in TURNED_AWAY


def answer_head(status: int, headers: Headers) -> AnswerHead:
    first_by_name, last_by_name = dict(reversed(headers)), dict(headers)
    names = frozenset(last_by_name)
    return AnswerHead(
        status=status,
        shown_names=names - _NOT_DOWNSTREAM,
        has_length=b"content-length" in names or b"transfer-encoding" in names,
        is_chunked=last_by_name.get(b"transfer-encoding", b"").lower().endswith(b"chunked"),
        lines_downstream=header_lines([header for header in headers if header[0] not in _NOT_DOWNSTREAM]),
        is_event_stream=first_by_name.get(b"content-type", b"").startswith(b"text/event-stream"),
        retry_after_s=_retry_after_s(headers) if status in TURNED_AWAY else None,
    )


def without_header(head: AnswerHead, name: bytes) -> AnswerHead:
    """The same without one that the client should not see."""
    lines = [line for line in head.lines_downstream.split(b"\r\n") if line and not line.startswith(name + b": ")]
    return AnswerHead(
        status=head.status,
        shown_names=head.shown_names - {name},
        has_length=head.has_length,
        is_chunked=head.is_chunked,
        lines_downstream=b"".join([line + b"\r\n" for line in lines]),
        is_event_stream=head.is_event_stream,
        retry_after_s=head.retry_after_s,
    )


def _retry_after_s(headers: Headers) -> float | None:
    """In seconds, or as a date, which is told by the engine's own clock."""
    by_name = dict(headers)
    value = by_name.get(b"retry-after", b"").strip()
    if value.isdigit():
        return float(value[:_MAX_DIGITS])
    try:
        then = parsedate_to_datetime(value.decode("latin-1"))
        return max(0.0, (then - parsedate_to_datetime(by_name.get(b"date", b"").decode("latin-1"))).total_seconds())
    except (ValueError, TypeError):
        return None


def header_lines(headers: Headers) -> bytes:
    return b"".join([name + b": " + value + b"\r\n" for name, value in headers])


class HeadBytes:
    """A head around the digits of its content-length."""

    __slots__ = ("after", "before")

    def __init__(self, before: bytes, after: bytes) -> None:
        self.before = before
        self.after = after

    def body_of(self, message: bytes) -> bytes | None:
        """The body, if `message` is one whole message with this very head but for the length of its body."""
        at = len(self.before)
        if message[:at] != self.before:
            return None
        body_bytes, digits_at, last = 0, at, min(len(message), at + _MAX_DIGITS)
        while at < last and _ZERO <= message[at] <= _NINE:
            body_bytes = 10 * body_bytes + message[at] - _ZERO
            at += 1
        body_at = at + len(self.after)
        if body_bytes != len(message) - body_at or message[at:body_at] != self.after:
            return None
        is_sound = at == digits_at + 1 or (at > digits_at and message[digits_at] != _ZERO)
        return message[body_at:] if is_sound else None


def head_bytes(message: bytes) -> HeadBytes | None:
    """To be recognised again; None if `message` is not one whole message with a content-length."""
    end = message.find(_END_OF_HEAD, 0, MAX_REMEMBERED_BYTES)
    found = _LENGTH_LINE.search(message, 0, end + 2) if end >= 0 else None
    if found is None or int(found[1]) != len(message) - end - len(_END_OF_HEAD):
        return None
    return HeadBytes(message[: found.start(1)], message[found.end(1) : end + len(_END_OF_HEAD)])

"""A request that was read, as bytes again: what a reader makes of them is what was read."""

from workers.gateway.http.heads import RequestHead, header_lines

_OF_FRAMING = frozenset((b"content-length", b"transfer-encoding", b"expect"))


def tell_again(head: RequestHead, body: bytes) -> bytes:
    """One that has come whole, in one piece now. Nobody waits for leave to send its body any more."""
    headers = [header for header in head.headers if header[0] not in _OF_FRAMING]
    if body or not _OF_FRAMING.isdisjoint(head.first_by_name):
        headers.append((b"content-length", b"%d" % len(body)))
    return _first_line(head) + header_lines(headers) + b"\r\n" + body


def begin_again(head: RequestHead, *, is_invited: bool) -> bytes:
    """Of one whose body is coming, the head: the rest comes as it was announced."""
    headers = [header for header in head.headers if header[0] != b"expect" or not is_invited]
    return _first_line(head) + header_lines(headers) + b"\r\n"


def _first_line(head: RequestHead) -> bytes:
    return b"%b %b HTTP/1.%d\r\n" % (head.method, head.target, 0 if head.is_http_10 else 1)

"""The head of a request, read strictly: what parsers may differ on is refused (requests.py says why)."""

import re
from urllib.parse import unquote_to_bytes

from workers.gateway.http.heads import Headers, RequestHead

MAX_URL_BYTES = 8 * 1024
MAX_HEADERS = 128

_FIRST_LINE = re.compile(rb"(GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT) ([!-~]+) HTTP/(\d)\.(\d)\r\n")
_FIELD_LINES = re.compile(rb"(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[^\x00-\x08\x0a-\x1f\x7f]*\r\n)*")
_TARGET = re.compile(rb"(?:https?://[^/?#@\\]+)?(/[^#]*|\?[^#]*)?", re.IGNORECASE)
_PLAIN_PATH = re.compile(rb"[!\"$&->@-~]*")  # no space, `#`, `%` or `?`
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,15}")
_HOST = re.compile(rb"[A-Za-z0-9._~%!$&'()*+,;=:\[\]-]*")
_ONCE = (b"host", b"content-length", b"transfer-encoding")


class RefusedRequestError(Exception):
    """What is no request, or too large for one. Nothing that follows on the connection can be understood."""

    def __init__(self, status: int, code: bytes, message: bytes) -> None:
        super().__init__(status, code)
        self.status = status
        self.code = code
        self.message = message

    def body(self) -> bytes:
        """In OpenAI's shape, as nobody knows yet which API was meant. Codes and messages are ours, and plain."""
        kind = b"invalid_request_error" if self.status < 500 else b"server_error"  # noqa: PLR2004 - HTTP
        return b'{"error":{"message":"%b","type":"%b","param":null,"code":"%b"}}' % (self.message, kind, self.code)


def invalid(why: bytes) -> RefusedRequestError:
    return RefusedRequestError(400, b"invalid_http", b"The request is not valid HTTP/1.1: " + why + b".")


def read_head(raw: bytes) -> RequestHead:
    """Of all bytes up to and with the empty line."""
    first = _FIRST_LINE.match(raw)
    if first is None:
        raise invalid(b"the first line is malformed")
    fields = _FIELD_LINES.match(raw, first.end())
    if fields is None or fields.end() != len(raw) - 2 or not raw.endswith(b"\r\n"):
        raise invalid(b"a header line is malformed")
    method, target, major, minor = first.groups()
    if major != b"1" or minor not in (b"0", b"1"):
        raise RefusedRequestError(505, b"http_version_unsupported", b"This server speaks HTTP/1.1 and HTTP/1.0.")
    headers = _split_fields(raw[first.end() : -2])
    is_http_10 = minor == b"0"
    _check_framing(headers, is_http_10=is_http_10)
    url = _path_of(method, target)
    keeps_alive = _keeps_alive(headers, is_http_10=is_http_10)
    return RequestHead(method, url, headers, is_http_10=is_http_10, keeps_alive=keeps_alive)


def _split_fields(lines: bytes) -> Headers:
    fields = [line.partition(b":") for line in lines.split(b"\r\n")[:-1]]
    if len(fields) > MAX_HEADERS:
        raise RefusedRequestError(431, b"headers_too_large", b"The headers are too large or too many.")
    return [(name.lower(), value.strip(b" \t")) for name, _, value in fields]


def _path_of(method: bytes, target: bytes) -> bytes:
    """Of a target in absolute form too, as proxies send it."""
    if len(target) > MAX_URL_BYTES:
        raise RefusedRequestError(414, b"url_too_long", b"The URL is too long.")
    if target == b"*" and method == b"OPTIONS":
        return target
    found = _TARGET.fullmatch(target)
    if found is None or method == b"CONNECT":
        raise invalid(b"the target is malformed")
    path = found[1] or b"/"
    if b"%" in path:
        path = _decoded(path)
    return path if path.startswith(b"/") else b"/" + path


def _decoded(url: bytes) -> bytes:
    """As engines read a path: once. One that is written so to hide something from a request line stays as it is."""
    path, mark, query = url.partition(b"?")
    plain = unquote_to_bytes(path)
    return (plain if _PLAIN_PATH.fullmatch(plain) else path) + mark + query


def _check_framing(headers: Headers, *, is_http_10: bool) -> None:
    names = [name for name, _ in headers]
    if any(names.count(name) > 1 for name in _ONCE):
        raise invalid(b"a header that may come once comes twice")
    values = dict(headers)
    length, coding = values.get(b"content-length"), values.get(b"transfer-encoding")
    if coding is not None and (length is not None or is_http_10 or coding.lower() != b"chunked"):
        raise invalid(b"the body must be chunked or have a length, not both, and have no other coding")
    if length is not None and not _LENGTH.fullmatch(length):
        raise invalid(b"the length of the body is malformed")
    host = values.get(b"host")
    if (host is None and not is_http_10) or (host is not None and not _HOST.fullmatch(host)):
        raise invalid(b"the host is missing or malformed")
    if not is_http_10 and values.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise RefusedRequestError(417, b"expectation_failed", b"This server knows no other expectation than 100.")


def _keeps_alive(headers: Headers, *, is_http_10: bool) -> bool:
    options = b",".join([value for name, value in headers if name == b"connection"]).lower().split(b",")
    wanted = {option.strip() for option in options}
    return b"keep-alive" in wanted and b"close" not in wanted if is_http_10 else b"close" not in wanted

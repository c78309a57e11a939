"""The answer to one client request: whole, or a stream in the framing that its HTTP version has."""

from typing import Final

from workers.gateway.apis.interface import API
from workers.gateway.errors import GatewayError
from workers.gateway.http.heads import AnswerHead, Headers
from workers.gateway.http.requests import HttpRequest
from workers.gateway.http.server import ClientConnection

_USUAL_CHUNK_BYTES = 1024
_WITHOUT_BODY = (204, 304)
_SIZE_LINES: Final = [b"%x\r\n" % size for size in range(_USUAL_CHUNK_BYTES)]


class ClientAnswer:
    """Each call is one write. `timing` is a header line.

    `head` is of the answer that has begun to go out and cannot be taken back; else None.
    """

    def __init__(self, client: ClientConnection, request: HttpRequest, *, api: API, own_headers: Headers) -> None:
        self._client = client
        self._api = api
        self._is_http_10 = request.is_http_10
        self._request = request
        self._own_headers = own_headers
        self.timing = b""
        self.head: AnswerHead | None = None

    def add_header(self, name: bytes, value: bytes) -> None:
        """Before anything has gone out."""
        self._own_headers = [*self._own_headers, (name, value)]

    def send_whole(self, head: AnswerHead, body: bytes) -> None:
        lines = self._lines(head)
        if body or head.status not in _WITHOUT_BODY:
            lines += b"content-length: " + str(len(body)).encode() + b"\r\n"
        self._client.respond_with(head.status, lines, body)

    def send_error(self, error: GatewayError) -> None:
        headers = self._api.error_headers(error) + self._own_headers
        self._client.respond(error.status, headers, self._api.error_body(error))

    def send_part(self, head: AnswerHead, part: bytes) -> None:
        """`head` counts only for the first part."""
        framed = self._framed(part)
        self._client.write(framed if self.head is not None else self._begin(head) + framed)

    def end(self, head: AnswerHead, last_part: bytes) -> None:
        end_mark = b"" if self._is_http_10 else b"0\r\n\r\n"
        begin = b"" if self.head is not None else self._begin(head)
        self._client.write(begin + self._framed(last_part) + end_mark)
        self._client.response_done()

    def _begin(self, head: AnswerHead) -> bytes:
        self.head = head
        lines = self._lines(head)
        if self._is_http_10:
            self._request.keeps_alive = False  # the end of the connection is the end of the answer
        else:
            lines += b"transfer-encoding: chunked\r\n"
        return self._client.head(head.status, lines)

    def _framed(self, part: bytes) -> bytes:
        if self._is_http_10 or not part:
            return part
        length = len(part)
        size_line = _SIZE_LINES[length] if length < _USUAL_CHUNK_BYTES else b"%x\r\n" % length
        return size_line + part + b"\r\n"

    def _lines(self, head: AnswerHead) -> bytes:
        """The engine's headers win over ours, but for those that speak of its own connection."""
        shown = head.shown_names
        lines = [head.lines_downstream, self.timing]
        for name, value in self._own_headers:
            if name not in shown or name == b"vary":
                lines += (name, b": ", value, b"\r\n")
        return b"".join(lines)

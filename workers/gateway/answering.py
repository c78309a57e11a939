"""The answer to one client request: whole, or a stream in the framing that its HTTP version has."""

from workers.gateway.apis.interface import API
from workers.gateway.errors import GatewayError
from workers.gateway.server import ClientConnection, Headers, HttpRequest

_NOT_DOWNSTREAM = frozenset(
    b"connection keep-alive transfer-encoding content-length trailer upgrade"
    b" access-control-allow-origin access-control-allow-credentials".split()
)


class ClientAnswer:
    """Each call is one write. `has_begun` tells whether anything has gone out that cannot be taken back."""

    def __init__(self, client: ClientConnection, request: HttpRequest, *, api: API, own_headers: Headers) -> None:
        self._client = client
        self._api = api
        self._is_http_10 = request.is_http_10
        self._request = request
        self._own_headers = own_headers
        self.has_begun = False

    def send_whole(self, status: int, headers: Headers, body: bytes) -> None:
        self._client.respond(status, self._merge(headers), body)

    def send_error(self, error: GatewayError) -> None:
        headers = self._api.error_headers(error) + self._own_headers
        self._client.respond(error.status, headers, self._api.error_body(error))

    def send_part(self, status: int, headers: Headers, part: bytes) -> None:
        """`status` and `headers` count only for the first part."""
        self._client.transport.write(self._head_if_due(status, headers) + self._framed(part))

    def end(self, status: int, headers: Headers, last_part: bytes) -> None:
        end_mark = b"" if self._is_http_10 else b"0\r\n\r\n"
        self._client.transport.write(self._head_if_due(status, headers) + self._framed(last_part) + end_mark)
        self._client.response_done()

    def _head_if_due(self, status: int, headers: Headers) -> bytes:
        if self.has_begun:
            return b""
        self.has_begun = True
        framing: Headers = []
        if self._is_http_10:
            self._request.keeps_alive = False  # the end of the connection is the end of the answer
        else:
            framing = [(b"transfer-encoding", b"chunked")]
        return self._client.head(status, self._merge(headers) + framing)

    def _framed(self, part: bytes) -> bytes:
        if self._is_http_10 or not part:
            return part
        return b"%x\r\n%b\r\n" % (len(part), part)

    def _merge(self, headers: Headers) -> Headers:
        """The engine's headers win over ours, but for those that speak of its own connection."""
        kept = [header for header in headers if header[0] not in _NOT_DOWNSTREAM]
        names = {name for name, _ in kept}
        return kept + [header for header in self._own_headers if header[0] not in names or header[0] == b"vary"]

"""Sending JSON to an address that a tenant gave: never to what only we can reach, never for long, never elsewhere.

The name is resolved once and the connection goes to the very address that was judged, so that a name that changes its
mind in between gains nothing. Redirects are not followed.
"""

import contextlib
import http.client
import socket
import ssl
import threading
from collections.abc import Mapping

from django.conf import settings

from apps.usage.policies.webhooks import Target, may_reach, target_of

_OK = range(200, 300)
_MAX_ANSWER_BYTES = 1024


class UndeliveredError(Exception):
    """Why, in words for the owner of the webhook; nothing of the answer is in it."""


def post_json(url: str, body: bytes, *, headers: Mapping[str, str], timeout_s: float) -> None:
    target = target_of(url)
    if target is None:
        raise UndeliveredError("the address is not one of http or https")
    connection = _connection(target, _judged_address(target), timeout_s)
    # The socket's own timeout begins anew with each byte that comes.
    end = threading.Timer(timeout_s, connection.hang_up)
    end.start()
    try:
        connection.request("POST", target.path, body, {"content-type": "application/json", **headers})
        answer = connection.getresponse()
        answer.read(_MAX_ANSWER_BYTES)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise UndeliveredError(f"the other side failed: {type(error).__name__}") from error
    finally:
        end.cancel()
        connection.close()
    if connection.is_late:
        raise UndeliveredError("the other side took too long")
    if answer.status not in _OK:
        raise UndeliveredError(f"the other side answered {answer.status}")


def _judged_address(target: Target) -> str:
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise UndeliveredError("the name of the host is not known") from error
    addresses = [str(address[0]) for *_, address in found]
    trusted = settings.WEBHOOK_TRUSTED_HOSTS
    if not all(may_reach(address, host=target.host, trusted_hosts=trusted) for address in addresses):
        raise UndeliveredError("the host has an address that is not public")
    return addresses[0]


def _connection(target: Target, address: str, timeout_s: float) -> "_Pinned":
    if target.is_tls:
        return _PinnedTLS(target.host, address, target.port, timeout_s)
    return _Pinned(target.host, address, target.port, timeout_s)


class _Pinned(http.client.HTTPConnection):
    """Names the host in its head and connects to the address."""

    def __init__(self, host: str, address: str, port: int, timeout_s: float) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self._address = address
        self.is_late = False

    def connect(self) -> None:
        self.sock = socket.create_connection((self._address, self.port), self.timeout)

    def hang_up(self) -> None:
        """From another thread: who reads then reads the end. Past TLS, which is not made for two threads."""
        self.is_late = True
        if self.sock is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self.sock, socket.SHUT_RDWR)


class _PinnedTLS(_Pinned):
    default_port = 443

    def connect(self) -> None:
        super().connect()
        context = ssl.create_default_context()
        self.sock = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
        self.sock.do_handshake()

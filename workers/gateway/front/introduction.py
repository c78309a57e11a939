"""What the head of a request says, and what follows from it as long as the same snapshot is active.

A connection repeats its head, so this is worked out once for all requests that come with it. What depends on the time
or on the connection, which are a key's end and a client's address, is asked anew for each.
"""

from workers.gateway.apis.paths import EnginePath
from workers.gateway.front.proofs import is_of_a_gateway
from workers.gateway.http.heads import Headers
from workers.gateway.http.requests import HttpRequest
from workers.gateway.payload.labels import (
    CHOSEN_VERSION,
    COUNTED,
    FORWARDED,
    PROOF,
    RECORD,
    REQUEST_ID,
    STAYS,
    note_headers,
)
from workers.gateway.snapshots.directory import Directory, Grant

MAX_REQUEST_ID = 128


class Introduction:
    """Who asks, under which `directory`, for which engine's `path`, with which headers.

    `given_id` is the client's own id for the request, "" where there is none that may stand in a header and a log;
    `extra_headers` go with every answer. `is_scoped`: the key may not ask from everywhere or not for everything.
    `is_forwarded` by a gateway that has proven to be one.
    `is_untraced`: the client gave neither a trace nor an id that could be one's. `times_sent_back` by other nodes,
    of those that the same directory knows; `is_again`: it was introduced before.
    """

    __slots__ = (
        "directory",
        "extra_headers",
        "given_id",
        "grant",
        "is_again",
        "is_forwarded",
        "is_scoped",
        "is_untraced",
        "key_id",
        "noted",
        "path",
        "path_text",
        "service_class",
        "tenant_id",
        "times_sent_back",
        "user_id",
    )

    def __init__(
        self, directory: Directory, grant: Grant, path: EnginePath, request: HttpRequest, extra_headers: Headers
    ) -> None:
        self.directory = directory
        self.grant = grant
        self.tenant_id = grant.tenant_id
        self.service_class = grant.service_class
        self.key_id = grant.key_id
        self.user_id = grant.user_id
        self.path = path
        self.path_text = request.path.decode()
        self.noted = note_headers(request.head.headers)
        self.given_id = given_id(self.noted.get(REQUEST_ID, b""))
        self.is_untraced = not self.given_id and b"traceparent" not in self.noted
        self.is_forwarded = FORWARDED in self.noted and self._is_of_a_gateway()
        self.extra_headers = extra_headers
        self.times_sent_back = 0
        self.is_again = False
        self.is_scoped = grant.paths is not None or grant.networks is not None

    def _is_of_a_gateway(self) -> bool:
        """Who only says so chooses nothing, and is never sent back; it stays here, lest nodes send it in circles."""
        secret, noted = self.directory.snapshot.peer_secret, self.noted
        if is_of_a_gateway(secret, FORWARDED, self.given_id.encode(), noted.get(PROOF, b"")):
            return True
        noted[FORWARDED] = STAYS
        noted.pop(CHOSEN_VERSION, None)
        noted.pop(COUNTED, None)
        noted.pop(RECORD, None)
        return False

    def holds(self, directory: Directory | None, unix_time: float) -> bool:
        """Whether nothing has changed since."""
        expires_at = self.grant.expires_at
        return self.directory is directory and (expires_at is None or unix_time < expires_at)


def given_id(given: bytes) -> str:
    """Empty where it may not stand in a header and a log."""
    if 0 < len(given) <= MAX_REQUEST_ID and given.isascii() and given.decode().isprintable():
        return given.decode()
    return ""

"""Streams of named events (`event: <type>`, then `data: {…}`), as Responses and Anthropic's Messages are."""

from typing import Protocol

from workers.gateway.bodies import Usage
from workers.gateway.streams import MAX_EVENT_BYTES

_END = b"\n\n"
_NAME = b"event: "
_DATA = b"\ndata: "


class Reading(Protocol):
    """What is read of the events of one answer. It keeps what the engine said of usage."""

    usage: Usage | None
    input_tokens: int | None

    def is_output(self, name: bytes) -> bool:
        """Whether an event of this name carries what was generated."""

    def is_read(self, name: bytes) -> bool:
        """Whether `read` wants to see it."""

    def read(self, data: bytes) -> bytes:
        """The data, with the model's public name where it names one."""


class NamedEvents:
    """Every event passes as it came, but for the model's name in those that `reading` reads.

    `last_data` is of the last event that passed.
    """

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._tail = b""
        self.last_data = b""
        self.fingerprint: bytes | None = None
        self.events_with_output = 0
        self.has_error = False

    @property
    def has_first_token(self) -> bool:
        return self.events_with_output > 0

    @property
    def usage(self) -> Usage | None:
        return self._reading.usage

    @property
    def input_tokens(self) -> int | None:
        return self._reading.input_tokens

    @property
    def is_too_long(self) -> bool:
        return len(self._tail) > MAX_EVENT_BYTES

    def feed(self, chunk: bytes) -> bytes:
        chunk = self._tail + chunk if self._tail else chunk
        end = chunk.rfind(_END)
        if end < 0:
            self._tail = chunk
            return b""
        self._tail = chunk[end + 2 :]
        return b"".join([self._pass(event) + _END for event in chunk[:end].split(_END)])

    def finish(self) -> bytes:
        rest, self._tail = self._tail, b""
        return rest

    def finish_whole_events(self) -> bytes:
        """Half an event is dropped."""
        self._tail = b""
        return b""

    def _pass(self, event: bytes) -> bytes:
        head, found, data = event.partition(_DATA)
        if not found or not head.startswith(_NAME):
            return event
        name = head[len(_NAME) :]
        self.last_data = data
        if self._reading.is_output(name):
            self.events_with_output += 1
        elif self._reading.is_read(name):
            return head + _DATA + self._reading.read(data)
        elif name == b"error":
            self.has_error = True
        return event

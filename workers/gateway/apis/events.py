"""Streams of named events (`event: <type>`, then `data: {…}`), as Responses and Anthropic's Messages are."""

import re
from typing import Protocol

from workers.gateway.apis.spoken import Spoken
from workers.gateway.events.event_stream import EVENT_END, EventStream
from workers.gateway.events.loose_events import read_loose
from workers.gateway.payload.bodies import Usage

_NAME = b"event: "
_DATA = b"\ndata: "
_LOOSE_NAME = re.compile(rb"(?:\A|\n)event: ?([^\n]*)")
_ERRORS = frozenset((b"error", b"response.failed"))
# As vLLM says it where it has no name for it.
_BARE_ERROR = b'{"error":'
_LAST = re.compile(rb'"type": ?"(?:response\.(?:completed|incomplete)|message_stop)"')


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


class NamedEvents(EventStream):
    """Every event passes as it came, but for the model's name in those that `reading` reads.

    `last_data` is of the last event that passed. `spoken` is kept where another engine may go on; while one can, the
    engine's own failure is held back.
    """

    first_event = b""

    def __init__(self, reading: Reading, spoken: Spoken | None = None) -> None:
        self._reading = reading
        self.spoken = spoken
        self.last_data = b""
        self.fingerprint: bytes | None = None
        self.events_with_output = 0
        self.has_error = False
        self._held_error = b""

    @property
    def text(self) -> bytearray | None:
        return self.spoken.text if self.spoken is not None else None

    @property
    def has_finished(self) -> bool:
        return self.spoken is not None and self.spoken.closings > 0

    @property
    def failed_at_once(self) -> bool:
        is_untold = self.usage is None and self.input_tokens is None
        return self.has_error and is_untold and not self.events_with_output

    @property
    def has_told_usage(self) -> bool:
        return False  # it stands in the last event

    @property
    def has_ended(self) -> bool:
        return _LAST.search(self.last_data) is not None

    @property
    def has_first_token(self) -> bool:
        return self.events_with_output > 0

    @property
    def usage(self) -> Usage | None:
        return self._reading.usage

    @property
    def input_tokens(self) -> int | None:
        return self._reading.input_tokens

    def finish(self) -> bytes:
        return self.release_error() + super().finish()

    def finish_whole_events(self) -> bytes:
        self._held_error = b""
        return super().finish_whole_events()

    def release_error(self) -> bytes:
        held, self._held_error = self._held_error, b""
        self.spoken = None
        return held

    def _pass(self, event: bytes) -> bytes:
        head, found, data = event.partition(_DATA)
        if not found or not head.startswith(_NAME) or b"\n" in head or b"\n" in data:
            return self._pass_loose(event)
        name = head[len(_NAME) :]
        if name in _ERRORS or data.startswith(_BARE_ERROR):
            return self._pass_error(self._read(head, name, data))
        self.last_data = data
        if self.spoken is not None:
            self.spoken.note(name, data)
        if self._reading.is_output(name):
            self.events_with_output += 1
            return event + EVENT_END
        return self._read(head, name, data) + EVENT_END

    def _read(self, head: bytes, name: bytes, data: bytes) -> bytes:
        return head + _DATA + (self._reading.read(data) if self._reading.is_read(name) else data)

    def _pass_loose(self, event: bytes) -> bytes:
        """Written in another way, it is read all the same; nobody goes on from it."""
        loose = read_loose(event)
        if loose is None:
            return event + EVENT_END
        found = _LOOSE_NAME.search(event)
        name = found[1] if found else str(loose.read("type")).encode()
        self.spoken = None
        self.has_error |= name in _ERRORS or bool(loose.raw("error"))
        self.last_data = loose.data
        self.events_with_output += self._reading.is_output(name)
        if self._reading.is_read(name):
            loose.data = self._reading.read(loose.data)
        return loose.shown() + EVENT_END

    def _pass_error(self, event: bytes) -> bytes:
        self.has_error = True
        if self.text is None:
            return event + EVENT_END
        self._held_error += event + EVENT_END
        return b""

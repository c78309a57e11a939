"""What the gateway asks of an API, and of the stream of one answer."""

from typing import Protocol

from workers.gateway.errors import GatewayError
from workers.gateway.payload.bodies import Answer, Usage


class AnswerStream(Protocol):
    """Fed with the engine's bytes; returns what may go out, always whole events.

    `usage` is the engine's own count, None while it has not said; `input_tokens` what it said of the prompt alone.
    `failed_at_once`: its error is all that the engine had to say, so it ran nothing that could be counted.
    `has_ended`: the event that says that no other follows is among what passed, so that whoever leaves now has had all.
    `has_told_usage`: the client has got the event that it asked for.
    `fingerprint` is as StreamFilter has it, None where there is none to learn; so are `text`, `first_event`,
    `has_finished` and `release_error`, for a stream that another engine may continue; `last_data` is of the last event
    that passed, for streams of named events.
    """

    @property
    def fingerprint(self) -> bytes | None: ...

    @property
    def events_with_output(self) -> int: ...

    @property
    def has_error(self) -> bool: ...

    @property
    def failed_at_once(self) -> bool: ...

    @property
    def text(self) -> bytes | bytearray | None: ...

    @property
    def first_event(self) -> bytes: ...

    @property
    def last_data(self) -> bytes: ...

    @property
    def has_finished(self) -> bool: ...

    @property
    def has_ended(self) -> bool: ...

    @property
    def has_told_usage(self) -> bool: ...

    def release_error(self) -> bytes: ...

    @property
    def has_first_token(self) -> bool: ...

    @property
    def usage(self) -> Usage | None: ...

    @property
    def input_tokens(self) -> int | None: ...

    @property
    def is_too_long(self) -> bool: ...

    def feed(self, chunk: bytes) -> bytes: ...

    def finish(self) -> bytes: ...

    def finish_whole_events(self) -> bytes: ...


class API(Protocol):
    """`error_headers` come with an error beside those that every error has."""

    def read_answer(self, body: bytes) -> Answer:
        """Of a whole answer; an empty one when the body is not what an engine sends."""

    def open_stream(self, rename: tuple[str, str] | None, *, keeps_text: bool = False) -> AnswerStream | None:
        """None where StreamFilter and the engine's dialect do it. `rename` is the model's name (from, to).

        `keeps_text`: another engine may go on with it.
        """

    def answer_headers(self, request_id: str) -> list[tuple[bytes, bytes]]:
        """Ours, on every answer."""

    def error_body(self, error: GatewayError) -> bytes: ...

    def error_headers(self, error: GatewayError) -> list[tuple[bytes, bytes]]: ...

    def error_event(self, error: GatewayError, stream: AnswerStream | None) -> bytes:
        """What ends a stream that has begun."""

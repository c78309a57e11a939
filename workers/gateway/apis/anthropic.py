"""Anthropic's Messages: the prompt is counted when a stream begins, the output when it ends; errors have a shape apart.

Anthropic's `input_tokens` leaves out what the cache had and took; ours includes them.
"""

import re

import msgspec
from msgspec import Struct

from workers.gateway.apis.events import NamedEvents
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.apis.spoken import SpokenMessage
from workers.gateway.errors import GatewayError
from workers.gateway.payload.bodies import Answer, Usage
from workers.gateway.payload.labels import REQUEST_ID

# https://docs.anthropic.com/en/api/errors; what is missing here is an api_error.
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class Anthropic:
    def read_answer(self, body: bytes) -> Answer:
        try:
            usage = _decode_message(body).usage
        except msgspec.DecodeError:
            return Answer()
        return Answer(usage=usage.as_usage() if usage else None)

    def open_stream(self, rename: tuple[str, str] | None, *, keeps_text: bool = False) -> AnswerStream:
        return NamedEvents(_Reading(rename), SpokenMessage() if keeps_text else None)

    def answer_headers(self, request_id: str) -> list[tuple[bytes, bytes]]:
        """Anthropic's own name of it too, which its SDK reads."""
        return [(name, request_id.encode()) for name in (REQUEST_ID, b"request-id")]

    def error_body(self, error: GatewayError) -> bytes:
        kind = _ERROR_TYPES.get(error.status, "api_error")
        return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": error.message}})

    def error_headers(self, error: GatewayError) -> list[tuple[bytes, bytes]]:
        """The shape has no place for a code."""
        return [*error.headers(), (b"x-error-code", error.code.encode())]

    def error_event(self, error: GatewayError, stream: AnswerStream | None) -> bytes:
        del stream
        return b"event: error\ndata: " + self.error_body(error) + b"\n\n"


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_creation_input_tokens: int | None = 0
    cache_read_input_tokens: int | None = 0

    def as_usage(self) -> Usage:
        cached = self.cache_read_input_tokens or 0
        tokens_in = (self.input_tokens or 0) + (self.cache_creation_input_tokens or 0) + cached
        return Usage.of(tokens_in if tokens_in or self.input_tokens == 0 else None, self.output_tokens, cached=cached)


class _Message(Struct):
    usage: _Usage | None = None


class _Event(Struct):
    """`message_start` has the message, `message_delta` the usage."""

    type: str = ""
    message: _Message | None = None
    usage: _Usage | None = None


_decode_message = msgspec.json.Decoder(_Message).decode
_decode_event = msgspec.json.Decoder(_Event).decode


class _Rename:
    """Of a message that begins: it has no content yet, so that the first name is the model's."""

    def __init__(self, served: str, public: str) -> None:
        self._served = re.compile(rb'("model":\s*)' + re.escape(msgspec.json.encode(served)))
        self._public = msgspec.json.encode(public)

    def rename(self, data: bytes) -> bytes:
        return self._served.sub(lambda found: found[1] + self._public, data, count=1)


class _Reading:
    def __init__(self, rename: tuple[str, str] | None) -> None:
        self._rename = _Rename(*rename) if rename else None
        self.usage: Usage | None = None
        self.input_tokens: int | None = None

    def is_output(self, name: bytes) -> bool:
        return name == b"content_block_delta"

    def is_read(self, name: bytes) -> bool:
        return name in {b"message_start", b"message_delta"}

    def read(self, data: bytes) -> bytes:
        try:
            event = _decode_event(data)
        except msgspec.DecodeError:
            return data
        if event.usage is not None:
            self._note_end(event.usage)
        elif event.message is not None and event.message.usage is not None:
            self.input_tokens = event.message.usage.as_usage().prompt_tokens
        return self._rename.rename(data) if self._rename is not None and event.message is not None else data

    def _note_end(self, usage: _Usage) -> None:
        """Of the prompt an engine may have spoken only at the beginning."""
        self.usage = usage.as_usage()
        if not self.usage.prompt_tokens and self.input_tokens:
            self.usage.prompt_tokens = self.input_tokens

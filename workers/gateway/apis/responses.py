"""OpenAI's Responses: usage comes with the event that ends the answer; errors are events with a number."""

from typing import Any

import msgspec
from msgspec import Raw, Struct

from workers.gateway.apis.events import NamedEvents
from workers.gateway.apis.interface import AnswerStream
from workers.gateway.apis.openai import InOutUsage, OpenAI, read_in_out_answer
from workers.gateway.apis.spoken import SpokenResponse
from workers.gateway.apis.voices import next_number
from workers.gateway.errors import GatewayError
from workers.gateway.payload.bodies import Answer, Usage

_ENDS = frozenset((b"response.completed", b"response.incomplete", b"response.failed"))
_WITH_RESPONSE = _ENDS | {b"response.created", b"response.in_progress", b"response.queued"}


class Responses(OpenAI):
    def read_answer(self, body: bytes) -> Answer:
        return read_in_out_answer(body)

    def open_stream(self, rename: tuple[str, str] | None, *, keeps_text: bool = False) -> AnswerStream:
        return NamedEvents(_Reading(rename[1] if rename else None), SpokenResponse() if keeps_text else None)

    def error_event(self, error: GatewayError, stream: AnswerStream | None) -> bytes:
        number = next_number(stream.last_data) if stream is not None else 0
        event = {
            "type": "error",
            "code": error.code,
            "message": error.message,
            "param": error.param,
            "sequence_number": number,
        }
        return b"event: error\ndata: " + msgspec.json.encode(event) + b"\n\n"


class _Response(Struct):
    usage: InOutUsage | None = None


class _Event(Struct):
    response: _Response | None = None


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode


class _Reading:
    def __init__(self, public_model: str | None) -> None:
        self._public_model = public_model
        self.usage: Usage | None = None
        self.input_tokens: int | None = None

    def is_output(self, name: bytes) -> bool:
        return name.endswith(b".delta")

    def is_read(self, name: bytes) -> bool:
        return name in _ENDS or (self._public_model is not None and name in _WITH_RESPONSE)

    def read(self, data: bytes) -> bytes:
        try:
            response = _decode_event(data).response
            if response is not None and response.usage is not None:
                self.usage = response.usage.as_usage()
            return self._renamed(data)
        except msgspec.DecodeError:
            return data

    def _renamed(self, data: bytes) -> bytes:
        """The name inside `response`: its metadata, which comes first, may hold a key of the same name."""
        if self._public_model is None:
            return data
        event: dict[str, Any] = _decode_fields(data)
        response: dict[str, Any] = _decode_fields(event.get("response", b"{}"))
        if "model" in response:
            event["response"] = response | {"model": self._public_model}
        return msgspec.json.encode(event)

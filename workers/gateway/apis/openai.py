"""OpenAI's chat, completions and pooling; and audio, whose usage is told in other words."""

import msgspec
from msgspec import Struct

from workers.gateway.apis.interface import AnswerStream
from workers.gateway.errors import GatewayError
from workers.gateway.payload.bodies import Answer, Metrics, Usage, read_answer
from workers.gateway.payload.labels import REQUEST_ID


class OpenAI:
    def read_answer(self, body: bytes) -> Answer:
        return read_answer(body)

    def open_stream(self, rename: tuple[str, str] | None, *, keeps_text: bool = False) -> AnswerStream | None:
        del rename, keeps_text
        return None

    def answer_headers(self, request_id: str) -> list[tuple[bytes, bytes]]:
        return [(REQUEST_ID, request_id.encode())]

    def error_body(self, error: GatewayError) -> bytes:
        return error.body()

    def error_headers(self, error: GatewayError) -> list[tuple[bytes, bytes]]:
        return error.headers()

    def error_event(self, error: GatewayError, stream: AnswerStream | None) -> bytes:
        del stream
        return error.stream_event()


class InputDetails(Struct):
    cached_tokens: int | None = 0


class OutputDetails(Struct):
    reasoning_tokens: int | None = 0


class InOutUsage(Struct):
    """Usage in the words of Responses and audio. `type` is "duration" where seconds are counted and no tokens."""

    type: str = "tokens"
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None

    def as_usage(self) -> Usage | None:
        if self.type != "tokens":
            return None
        cached = self.input_tokens_details.cached_tokens if self.input_tokens_details else 0
        reasoning = self.output_tokens_details.reasoning_tokens if self.output_tokens_details else 0
        return Usage.of(self.input_tokens, self.output_tokens, cached=cached, reasoning=reasoning)


class InOutAnswer(Struct):
    """A whole answer with usage in those words."""

    usage: InOutUsage | None = None
    metrics: Metrics | None = None


_decode_answer = msgspec.json.Decoder(InOutAnswer).decode


def read_in_out_answer(body: bytes) -> Answer:
    try:
        answer = _decode_answer(body)
    except msgspec.DecodeError:
        return Answer()
    return Answer(usage=answer.usage.as_usage() if answer.usage else None, metrics=answer.metrics)


class Audio(OpenAI):
    """A transcription; streams are those of chat."""

    def read_answer(self, body: bytes) -> Answer:
        return read_in_out_answer(body)

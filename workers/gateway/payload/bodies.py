"""What is read from and changed in JSON bodies. Everything else passes through as the bytes it came in."""

import json
import re
from functools import cache
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct

from workers.gateway.errors import GatewayError, bad_request
from workers.gateway.payload.flags import is_true

NO_TEXT = Raw()
_STRING = rb'"(?:[^"\\]|\\.)*"'
_TOKEN = re.compile(_STRING + rb"|[{}\[\]]", re.DOTALL)
_MODEL = re.compile(rb'"model"\s*:\s*(' + _STRING + rb")", re.DOTALL)
# UTF-16 and UTF-8 with their byte order marks, which Python's parser takes.
_OTHER_ENCODINGS = (b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf")


class Peek(Struct):
    """The few fields of a request that routing and metering need. Types are the client's: the engine validates.

    What makes up the prompt is kept as it came, and not looked into.
    """

    model: Any = None
    stream: Any = None
    stream_options: Any = None
    user: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    n_predict: Any = None
    n: Any = None
    timings_per_token: Any = None
    service_tier: Any = None
    metadata: Any = None
    cache_salt: Any = None
    previous_response_id: Any = None
    background: Any = None
    priority: Any = UNSET
    messages: Raw = NO_TEXT
    prompt: Raw = NO_TEXT
    input: Raw = NO_TEXT
    system: Raw = NO_TEXT
    instructions: Raw = NO_TEXT
    tools: Raw = NO_TEXT

    def has_stream_option(self, name: str) -> bool:
        return isinstance(self.stream_options, dict) and is_true(self.stream_options.get(name))


_PROMPT_FIELDS = frozenset(("messages", "prompt", "input", "system", "instructions", "tools"))
TEXT_FIELDS = frozenset(Peek.__struct_fields__) - _PROMPT_FIELDS


class Usage(Struct):
    """As engines report it; a token count that is absent or null reads as 0 beside one that is there."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: "PromptDetails | None" = None
    completion_tokens_details: "CompletionDetails | None" = None

    @classmethod
    def of(
        cls, tokens_in: int | None, tokens_out: int | None, *, cached: int | None = 0, reasoning: int | None = 0
    ) -> "Usage":
        return cls(tokens_in, tokens_out, PromptDetails(cached), CompletionDetails(reasoning))

    @property
    def is_empty(self) -> bool:
        """It says nothing: 0 would be 0."""
        return self.prompt_tokens is None and self.completion_tokens is None

    @property
    def cached_tokens(self) -> int:
        details = self.prompt_tokens_details
        return (details.cached_tokens if details else 0) or 0

    @property
    def reasoning_tokens(self) -> int:
        details = self.completion_tokens_details
        return (details.reasoning_tokens if details else 0) or 0


class PromptDetails(Struct):
    cached_tokens: int | None = 0


class CompletionDetails(Struct):
    reasoning_tokens: int | None = 0


class Metrics(Struct):
    """What vLLM tells of one request; `time_to_first_token_ms` counts from its arrival at the engine."""

    time_to_first_token_ms: float | None = None


class Timings(Struct):
    """What llama.cpp tells instead."""

    prompt_ms: float | None = None


class Answer(Struct):
    """A whole answer, as far as it is read."""

    usage: Usage | None = None
    metrics: Metrics | None = None
    timings: Timings | None = None

    @property
    def ttft_ms(self) -> float | None:
        """From the arrival at the engine, where it tells."""
        if self.metrics is not None:
            return self.metrics.time_to_first_token_ms
        return self.timings.prompt_ms if self.timings is not None else None


# Of nearly all bodies, which so are in UTF-8.
USUAL_STARTS = frozenset((b'{"', b"{ ", b"{\n", b"{\r"))
_decode_peek = msgspec.json.Decoder(Peek).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_answer = msgspec.json.Decoder(Answer).decode
_decode_usage = msgspec.json.Decoder(Usage).decode


def in_utf8(body: bytes) -> bytes:
    """The same text as engines read it, who take JSON in UTF-16 and UTF-32, too. What is neither stays as it is."""
    try:
        return body.decode(json.detect_encoding(body), "surrogatepass").encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return body


def peek(body: bytes) -> Peek:
    """Raises a 400 that says what is wrong when the body is not a JSON object with a model."""
    try:
        found = _decode_peek(body)
    except msgspec.DecodeError as error:
        found = _peek_leniently(body, error)
    except RecursionError:
        raise _too_deep() from None
    if not isinstance(found.model, str) or not found.model:
        raise bad_request("missing_model", "You must provide a model parameter, a string.", "model")
    return found


def _peek_leniently(body: bytes, error: msgspec.DecodeError) -> Peek:
    """Python's own parser takes some bodies that engines take too and msgspec refuses (NaN, lone surrogates)."""
    try:
        fields = json.loads(body)
    except ValueError:
        raise bad_request("invalid_json", f"The body is not valid JSON: {error}") from None
    except RecursionError:
        raise _too_deep() from None
    if not isinstance(fields, dict):
        raise bad_request("invalid_json", "The body must be a JSON object.") from None
    found = Peek(**{name: _encodable(fields[name]) for name in TEXT_FIELDS if name in fields})
    if isinstance(found.metadata, dict):
        found.metadata = {_encodable(name): _encodable(value) for name, value in found.metadata.items()}
    return found


def _too_deep() -> GatewayError:
    return bad_request("invalid_json", "The body is nested too deeply.")


def _encodable(value: Any) -> Any:
    """A text as it can stand in an error, a hash and a record, where half a surrogate pair cannot."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def with_fields(body: bytes, fields: dict[str, Any]) -> bytes:
    """The same object with these fields set; the other values keep their bytes, if they are in UTF-8."""
    if b"\0" in body[:4] or body.startswith(_OTHER_ENCODINGS):
        return json.dumps(json.loads(body) | fields).encode()
    if not any(b'"%b"' % name.encode() in body for name in fields):
        return body.rstrip()[:-1] + b"," + msgspec.json.encode(fields)[1:]
    try:
        known: dict[str, Any] = _decode_fields(body)
        return msgspec.json.encode(known | fields)
    except msgspec.DecodeError:
        return json.dumps(json.loads(body) | fields).encode()


def with_flat_object(body: bytes, name: str, known: dict[str, Any], wanted: dict[str, Any]) -> bytes:
    """The same with `wanted` for an object that stands there already; nearly always nothing else has to be read."""
    pattern = _flat_object(name)
    found = pattern.search(body)
    if found is None or pattern.search(body, found.end()) is not None or not _is_encoded(known, found[1]):
        return with_fields(body, {name: wanted})
    return body[: found.start(1)] + msgspec.json.encode(wanted) + body[found.end(1) :]


def _is_encoded(known: dict[str, Any], text: bytes) -> bool:
    try:
        return bool(msgspec.json.decode(text) == known)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


@cache
def _flat_object(name: str) -> re.Pattern[bytes]:
    return re.compile(rb'"%b"\s*:\s*(\{[^{}\\]*\})' % name.encode())


def with_model(body: bytes, name: str) -> bytes:
    """An answer with the model's name set, where it names one at its top; the rest keeps its bytes."""
    spans = _model_spans(body)
    encoded = msgspec.json.encode(name)
    for span in reversed(spans):
        body = body[: span.start] + encoded + body[span.stop :]
    return body


def _model_spans(body: bytes) -> list[slice]:
    """Where the names stand: nearly always one, in an answer that has no other key of that name."""
    found = _MODEL.search(body)
    if found is None:
        return []
    if _MODEL.search(body, found.end()) is None and body.find(b"{", 1, found.start()) < 0:
        return [slice(*found.span(1))]
    return _spans_at_the_top(body)


def _spans_at_the_top(body: bytes) -> list[slice]:
    spans, depth = [], 0
    for token in _TOKEN.finditer(body):
        kind = token[0][:1]
        if kind in b"{[":
            depth += 1
        elif kind in b"}]":
            depth -= 1
        elif depth == 1 and (found := _MODEL.match(body, token.start())) is not None:
            spans.append(slice(*found.span(1)))
    return spans


def read_answer(body: bytes) -> Answer:
    """An empty one when the body is not what an engine sends."""
    try:
        return _decode_answer(body)
    except msgspec.DecodeError:
        return Answer()


def decode_usage(usage: bytes) -> Usage | None:
    try:
        return _decode_usage(usage)
    except msgspec.DecodeError:
        return None

"""What is read from and changed in JSON bodies. Everything else passes through as the bytes it came in."""

import json
from typing import Any

import msgspec
from msgspec import Raw, Struct

from workers.gateway.errors import bad_request

_TRUE_WORDS = frozenset(("true", "t", "yes", "y", "on", "1"))


class Peek(Struct):
    """The few fields of a request that routing and metering need. Types are the client's: the engine validates."""

    model: Any = None
    stream: Any = None
    stream_options: Any = None
    user: Any = None
    safety_identifier: Any = None
    prompt_cache_key: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None

    @property
    def is_stream(self) -> bool:
        """As vLLM's pydantic reads it: true, 1 and words for yes."""
        value = self.stream
        if isinstance(value, str):
            return value.lower() in _TRUE_WORDS
        return value is True or value == 1

    @property
    def wants_usage(self) -> bool:
        return bool(self._option("include_usage"))

    @property
    def wants_continuous_usage(self) -> bool:
        return self.wants_usage and bool(self._option("continuous_usage_stats"))

    @property
    def end_user(self) -> str:
        return next((v for v in (self.safety_identifier, self.user) if isinstance(v, str) and v), "")[:256]

    @property
    def output_limit(self) -> int | None:
        limits = (self.max_completion_tokens, self.max_tokens)
        return next((limit for limit in limits if isinstance(limit, int) and limit >= 0), None)

    def _option(self, name: str) -> Any:
        options = self.stream_options
        return options.get(name) if isinstance(options, dict) else None


class Usage(Struct):
    """As engines report it; token counts that are absent or null read as 0."""

    prompt_tokens: int | None = 0
    completion_tokens: int | None = 0
    prompt_tokens_details: "PromptDetails | None" = None
    completion_tokens_details: "CompletionDetails | None" = None

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


class _Answer(Struct):
    usage: Usage | None = None


_decode_peek = msgspec.json.Decoder(Peek).decode
_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_answer = msgspec.json.Decoder(_Answer).decode
_decode_usage = msgspec.json.Decoder(Usage).decode


def peek(body: bytes) -> Peek:
    """Raises a 400 that says what is wrong when the body is not a JSON object with a model."""
    try:
        found = _decode_peek(body)
    except msgspec.DecodeError as error:
        found = _peek_leniently(body, error)
    if not isinstance(found.model, str) or not found.model:
        raise bad_request("missing_model", "You must provide a model parameter, a string.", "model")
    return found


def _peek_leniently(body: bytes, error: msgspec.DecodeError) -> Peek:
    """Python's own parser takes some bodies that engines take too and msgspec refuses (NaN, lone surrogates)."""
    try:
        fields = json.loads(body)
    except ValueError:
        raise bad_request("invalid_json", f"The body is not valid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise bad_request("invalid_json", "The body must be a JSON object.") from None
    return Peek(**{name: fields.get(name) for name in Peek.__struct_fields__})


def replace_model(body: bytes, model: str) -> bytes:
    """The same object with another `model`; the other values keep their bytes."""
    return _replace_field(body, "model", model)


def ask_for_usage(body: bytes, found: Peek, *, is_continuous: bool) -> bytes:
    """Sets stream_options so that the engine reports usage."""
    wanted = {"include_usage": True} | ({"continuous_usage_stats": True} if is_continuous else {})
    if found.stream_options is None and b'"stream_options"' not in body:
        return body.rstrip()[:-1] + b',"stream_options":' + msgspec.json.encode(wanted) + b"}"
    if found.stream_options is not None and not isinstance(found.stream_options, dict):
        return body  # not ours to repair: the engine refuses it and says why
    return _replace_field(body, "stream_options", (found.stream_options or {}) | wanted)


def _replace_field(body: bytes, name: str, value: Any) -> bytes:
    try:
        fields: dict[str, Any] = _decode_fields(body)
        return msgspec.json.encode(fields | {name: value})
    except msgspec.DecodeError:
        return json.dumps(json.loads(body) | {name: value}).encode()


def read_usage(answer: bytes) -> Usage | None:
    """The usage of a whole answer; None when it has none or is not what an engine sends."""
    try:
        return _decode_answer(answer).usage
    except msgspec.DecodeError:
        return None


def decode_usage(usage: bytes) -> Usage | None:
    try:
        return _decode_usage(usage)
    except msgspec.DecodeError:
        return None

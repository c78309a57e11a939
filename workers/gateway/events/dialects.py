"""How an engine is asked for usage in a stream, and where it says it.

Engines tell the usage of a stream only when asked, at its end. Of a stream that is cut short we know what was generated
only if the engine counts along, which each does in its own way.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

import msgspec
from msgspec import Struct

from workers.contracts.endpoints import Endpoint
from workers.gateway.payload.bodies import Peek, PromptDetails, Usage, decode_usage, with_fields, with_flat_object
from workers.gateway.payload.flags import is_flag


class Dialect(Protocol):
    """What the gateway asks of a dialect.

    `count_key` begins the object in an event that counts along; it is taken out again where we asked for it, and stays
    in events that finish a choice if the engine puts it there unasked (`counts_in_finish` is False). An answer's own
    `usage` may speak of its first choice alone (`counts_every_choice` is False).

    `hides_usage_event` says whether the event after the last choice, which brings the usage, comes only because we
    asked for it.
    """

    count_key: bytes
    counts_in_finish: bool
    counts_every_choice: bool

    def prepare(self, body: bytes, peek: Peek) -> bytes: ...

    def hides_usage_event(self, peek: Peek) -> bool: ...

    def hides_counts(self, peek: Peek) -> bool: ...

    def read_counts(self, by_choice: Mapping[bytes, bytes], choices_per_prompt: int) -> Usage | None: ...


class VLLMDialect:
    """OpenAI's `stream_options`, with vLLM's `continuous_usage_stats` where the endpoint has it."""

    count_key = b',"usage":{'
    counts_in_finish = True
    counts_every_choice = True

    def __init__(self, *, is_continuous: bool) -> None:
        self._wanted = {"include_usage": True} | ({"continuous_usage_stats": True} if is_continuous else {})

    def prepare(self, body: bytes, peek: Peek) -> bytes:
        options = peek.stream_options
        if options is not None and not (isinstance(options, dict) and _are_flags(options, self._wanted)):
            return body  # not ours to repair: the engine refuses it and says why
        if options and self._wanted.items() <= options.items():
            return body
        if options:
            return with_flat_object(body, "stream_options", options, options | self._wanted)
        return with_fields(body, {"stream_options": self._wanted})

    def hides_usage_event(self, peek: Peek) -> bool:
        return not peek.has_stream_option("include_usage")

    def hides_counts(self, peek: Peek) -> bool:
        return not (peek.has_stream_option("include_usage") and peek.has_stream_option("continuous_usage_stats"))

    def read_counts(self, by_choice: Mapping[bytes, bytes], choices_per_prompt: int) -> Usage | None:
        """A count speaks of one choice: its own output, and the input of the prompt it belongs to."""
        if len(by_choice) == 1 and b"0" in by_choice:
            return decode_usage(by_choice[b"0"])
        inputs: dict[int, int] = {}
        output_tokens = 0
        for index, encoded in by_choice.items():
            usage = decode_usage(encoded)
            if usage is None:
                return None
            inputs[int(index) // choices_per_prompt] = usage.prompt_tokens or 0
            output_tokens += usage.completion_tokens or 0
        return Usage(prompt_tokens=sum(inputs.values()), completion_tokens=output_tokens)


class _Timings(Struct):
    cache_n: int = 0
    prompt_n: int = 0
    predicted_n: int = 0


_decode_timings = msgspec.json.Decoder(_Timings).decode


class LlamaCppDialect:
    """llama.cpp's own `timings`, which end each stream anyway: `timings_per_token` puts them into every event."""

    count_key = b',"timings":{'
    counts_in_finish = False
    counts_every_choice = False

    def prepare(self, body: bytes, peek: Peek) -> bytes:
        return body if peek.timings_per_token is not None else with_fields(body, {"timings_per_token": True})

    def hides_usage_event(self, peek: Peek) -> bool:
        del peek
        return False

    def hides_counts(self, peek: Peek) -> bool:
        return peek.timings_per_token is None

    def read_counts(self, by_choice: Mapping[bytes, bytes], choices_per_prompt: int) -> Usage | None:
        del choices_per_prompt
        try:
            timings = [_decode_timings(encoded) for encoded in by_choice.values()]
        except msgspec.DecodeError:
            return None
        return Usage(
            prompt_tokens=max(timing.cache_n + timing.prompt_n for timing in timings),
            completion_tokens=sum(timing.predicted_n for timing in timings),
            prompt_tokens_details=PromptDetails(max(timing.cache_n for timing in timings)),
        )


def _are_flags(options: Mapping[str, object], names: Iterable[str]) -> bool:
    return all(is_flag(options.get(name)) for name in names)


_VLLM_CONTINUOUS = VLLMDialect(is_continuous=True)
_VLLM_AT_THE_END = VLLMDialect(is_continuous=False)
_LLAMACPP = LlamaCppDialect()


def dialect_of(endpoint: Endpoint) -> Dialect:
    if endpoint.engine == "llamacpp":
        return _LLAMACPP
    return _VLLM_CONTINUOUS if endpoint.reports_continuous_usage else _VLLM_AT_THE_END

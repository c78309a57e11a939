"""Request bodies, checked in vLLM's order: JSON, fields, model, ranges, length."""

import json
from typing import Any

import msgspec
from msgspec import Struct, structs

from workers.engines.fake.errors import (
    bad_request,
    bad_value,
    describe_input,
    invalid_fields,
    too_long,
)
from workers.engines.fake.fields import Fields
from workers.engines.fake.inputs import read_inputs
from workers.engines.fake.messages import read_messages
from workers.engines.fake.served import Served, check_model, read_priority
from workers.engines.fake.words import TokenIds, chat_tokens, split_tokens

_MAX_CHOICES = 1024
_MAX_LOGPROBS = 20


class GenerationCall(Struct, frozen=True, kw_only=True):
    """`prompts` are token lists: one for a chat, one or more for completions. `n` choices are made of each.

    `api` is whose shape the answer has: "openai", "messages" or "responses". The last `begun_tokens` of a chat begin
    the answer.
    """

    prompts: list[list[str]]
    is_chat: bool
    n: int
    max_tokens: int | None
    min_tokens: int
    temperature: float
    seed: int | None
    stops: tuple[str, ...]
    keeps_stop: bool
    ignores_eos: bool
    priority: int
    is_stream: bool
    includes_usage: bool
    continuous_usage: bool
    top_logprobs: int | None
    cache_salt: str
    request_id: str | None
    api: str = "openai"
    begun_tokens: int = 0
    instructions: str | None = None
    metadata: Any = None

    def limit_tokens(self, prompt: list[str], served: Served) -> int:
        """What is wanted, cut to what is left of the context: vLLM cuts without a word."""
        room = served.max_model_tokens - len(prompt)
        return room if self.max_tokens is None else min(self.max_tokens, room)


def decode_body(body: bytes) -> dict[str, Any]:
    """Raises the APIError that vLLM answers to anything but a JSON object."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        value = _decode_leniently(body)
    if not isinstance(value, dict):
        message = "Input should be a valid dictionary or object to extract fields from"
        problem = {"type": "model_attributes_type", "loc": "body", "msg": message, "input": describe_input(value)}
        raise invalid_fields([problem])
    return value


def _decode_leniently(body: bytes) -> Any:
    """The standard parser takes a little more than msgspec, and its complaints are those that vLLM passes on."""
    try:
        return json.loads(body)
    except json.JSONDecodeError as error:
        problem = {
            "type": "json_invalid",
            "loc": f"body.{error.pos}",
            "msg": "JSON decode error",
            "input": describe_input({}),
            "ctx": {"error": error.msg},
        }
        raise invalid_fields([problem]) from error
    except (ValueError, RecursionError) as error:  # no text; or a number or a depth that Python refuses
        raise bad_request("There was an error parsing the body") from error


def read_chat(body: dict[str, Any], served: Served, priority: str | None) -> GenerationCall:
    fields = Fields(body)
    messages = read_messages(fields)
    wants_logprobs = fields.flag("logprobs")
    top_logprobs = fields.integer("top_logprobs")
    max_tokens = fields.integer("max_completion_tokens")
    begun = _read_begun(fields, messages)
    call = _read_generation(
        fields,
        served,
        prompts=[chat_tokens(messages if begun is None else messages[:-1], begun)],
        is_chat=True,
        top_logprobs=(top_logprobs or 0) if wants_logprobs else None,
        max_tokens=fields.integer("max_tokens") if max_tokens is None else max_tokens,
        priority=priority,
    )
    if "tools" in fields and fields.raw("tool_choice") in (None, "auto"):
        raise bad_request('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
    return call if begun is None else structs.replace(call, begun_tokens=len(split_tokens(begun)))


def _read_begun(fields: Fields, messages: list[tuple[str, str]]) -> str | None:
    """The beginning of the answer, where the last message is to be continued."""
    if not fields.flag("continue_final_message"):
        return None
    if fields.flag("add_generation_prompt"):
        raise bad_request("Cannot set both `continue_final_message` and `add_generation_prompt` to True.")
    return messages[-1][1] if messages else None


def read_completion(body: dict[str, Any], served: Served, priority: str | None, ids: TokenIds) -> GenerationCall:
    fields = Fields(body)
    prompts = read_inputs(fields.raw("prompt"), ids)
    if not prompts or not all(prompts):
        message = "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)"
        raise bad_request(message, "prompt")
    return _read_generation(
        fields,
        served,
        prompts=prompts,
        is_chat=False,
        top_logprobs=fields.integer("logprobs"),
        max_tokens=16 if fields.raw("max_tokens") is None else fields.integer("max_tokens"),
        priority=priority,
    )


def _read_stops(fields: Fields) -> tuple[str, ...]:
    value = fields.raw("stop")
    values = [value] if isinstance(value, str) else value or []
    if not isinstance(values, list) or not all(isinstance(item, str) for item in values):
        fields.refuse("stop", "string_type", "Input should be a valid string", value)
        return ()
    if "" in values:
        raise bad_request("stop cannot contain an empty string.")
    return tuple(values)


def _read_generation(
    fields: Fields,
    served: Served,
    *,
    prompts: list[list[str]],
    is_chat: bool,
    top_logprobs: int | None,
    max_tokens: int | None,
    priority: str | None,
) -> GenerationCall:
    options = fields.nested("stream_options")
    exact_tokens = fields.nested("vllm_xargs").integer("output_tokens")
    temperature = fields.number("temperature")
    n = fields.integer("n")
    call = GenerationCall(
        prompts=prompts,
        is_chat=is_chat,
        n=1 if n is None else n,
        max_tokens=max_tokens if exact_tokens is None else exact_tokens,
        min_tokens=fields.integer("min_tokens") or 0,
        temperature=1.0 if temperature is None else temperature,
        seed=fields.integer("seed"),
        stops=_read_stops(fields),
        keeps_stop=fields.flag("include_stop_str_in_output"),
        ignores_eos=fields.flag("ignore_eos") or exact_tokens is not None,
        priority=read_priority(fields, priority),
        is_stream=fields.flag("stream"),
        includes_usage=options.flag("include_usage"),
        continuous_usage=options.flag("include_usage") and options.flag("continuous_usage_stats"),
        top_logprobs=top_logprobs,
        cache_salt=fields.text("cache_salt") or "",
        request_id=fields.text("request_id"),
    )
    top_p = fields.number("top_p")
    fields.close()
    check_model(fields, served)
    _check_ranges(call, served, 1.0 if top_p is None else top_p)
    if "stream_options" in fields and not call.is_stream:
        message = "Stream options can only be defined when `stream=True`. (parameter=stream_options)"
        raise bad_request(message, "stream_options")
    return call


def _check_ranges(call: GenerationCall, served: Served, top_p: float) -> None:
    _check_length(call, served.max_model_tokens)
    if call.temperature < 0:
        raise bad_value(f"temperature must be non-negative, got {call.temperature}.", "temperature", call.temperature)
    if not 0 < top_p <= 1:
        raise bad_value(f"top_p must be in (0, 1], got {top_p}.", "top_p", top_p)
    if call.n < 1:
        raise bad_request(f"n must be at least 1, got {call.n}.")
    if call.n * len(call.prompts) > _MAX_CHOICES:
        raise bad_request(f"n must be at most {_MAX_CHOICES}, got {call.n}.")
    if not 0 <= (call.top_logprobs or 0) <= _MAX_LOGPROBS:
        message = (
            f"Requested sample logprobs of {call.top_logprobs}, which is greater than max allowed: {_MAX_LOGPROBS}"
        )
        raise bad_value(message, "logprobs", call.top_logprobs)


def _check_length(call: GenerationCall, limit: int) -> None:
    wanted = call.max_tokens
    if wanted is not None and wanted > limit:
        cause = f"max_tokens={wanted} cannot be greater than max_model_len={limit}."
        raise bad_value(f"{cause} Please request fewer output tokens.", "max_tokens", wanted)
    for prompt in call.prompts:
        if len(prompt) >= limit:
            raise too_long(limit, len(prompt))
    if wanted is not None and wanted < 1:
        raise bad_value(f"max_tokens must be at least 1, got {wanted}.", "max_tokens", wanted)

"""Chats as vLLM's own tests of its chat entry point ask for them: every field that changes the shape of an answer."""

from typing import Any

_COLOURS = [{"role": "user", "content": "Name three colours."}]
_WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "maxLength": 8}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}
_PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
_NAMED = {"type": "function", "function": {"name": "get_weather"}}
_PREFILLED = [*_COLOURS, {"role": "assistant", "content": "Red, green"}]
_PARTS = [{"role": "user", "content": [{"type": "text", "text": "Name"}, {"type": "text", "text": " three."}]}]
_CALLED = [
    {"role": "user", "content": "Weather in Rome?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "get_weather", "arguments": '{"city":"Rome"}'}}
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
]
_WITH_USAGE = {"stream_options": {"include_usage": True}}
_COUNTING = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


def _image(url: str) -> list[dict[str, Any]]:
    return [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]


# Asked for as a stream, and some of them whole too.
SHAPES: dict[str, dict[str, Any]] = {
    "plain": {},
    "a developer's message": {"messages": [{"role": "developer", "content": "Be brief."}, *_COLOURS]},
    "content in parts": {"messages": _PARTS},
    "a tool's answer": {"messages": _CALLED, "tools": [_WEATHER]},
    "two choices": {"n": 2, "temperature": 1, "seed": 7},
    "two choices with a count": {"n": 2, "temperature": 1, "seed": 7} | _COUNTING,
    "a seed": {"temperature": 1, "seed": 42},
    "logprobs": {"logprobs": True, "top_logprobs": 5},
    "logprobs of the token alone": {"logprobs": True, "top_logprobs": 0},
    "logprobs of two choices": {"n": 2, "temperature": 1, "seed": 7, "logprobs": True, "top_logprobs": 1},
    "a stop": {"stop": "e"},
    "stops": {"stop": ["Blue", "en"], "include_stop_str_in_output": True},
    "a stop token": {"stop_token_ids": [28, 29]},
    "minimum of tokens": {"min_tokens": 3, "stop": ["Red"]},
    "beyond the end": {"ignore_eos": True, "max_tokens": 8},
    "max_completion_tokens": {"max_tokens": None, "max_completion_tokens": 4},
    "penalties": {"repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.5},
    "a bias": {"logit_bias": {"28": -100, "30": 5}},
    "bad words": {"bad_words": ["Red"]},
    "sampling": {"temperature": 0.8, "top_p": 0.9, "top_k": 5, "min_p": 0.05, "seed": 1},
    "special tokens": {"skip_special_tokens": False, "spaces_between_special_tokens": False},
    "begun by the client": {
        "messages": _PREFILLED,
        "continue_final_message": True,
        "add_generation_prompt": False,
    },
    "begun and echoed": {
        "messages": _PREFILLED,
        "continue_final_message": True,
        "add_generation_prompt": False,
        "echo": True,
    },
    "token ids": {"return_token_ids": True},
    "tokens as ids": {"logprobs": True, "top_logprobs": 1, "return_tokens_as_token_ids": True},
    "a JSON object": {"response_format": {"type": "json_object"}, "max_tokens": 12},
    "a JSON schema": {
        "response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": _PERSON}},
        "max_tokens": 24,
    },
    "structured by JSON": {"structured_outputs": {"json": _PERSON}, "max_tokens": 24},
    "structured by a regex": {"structured_outputs": {"regex": "[a-c]{3}"}},
    "structured by a choice": {"structured_outputs": {"choice": ["red", "green"]}},
    "structured by a grammar": {"structured_outputs": {"grammar": 'root ::= "yes" | "no"'}},
    "a named tool": {"tools": [_WEATHER], "tool_choice": _NAMED, "max_tokens": 24},
    "a tool of its choice": {"tools": [_WEATHER], "tool_choice": "auto", "max_tokens": 12},
    "some tool": {"tools": [_WEATHER], "tool_choice": "required", "max_tokens": 32},
    "no tool": {"tools": [_WEATHER], "tool_choice": "none"},
    "several tools at once": {"tools": [_WEATHER], "tool_choice": "required", "parallel_tool_calls": False},
    "what OpenAI alone knows": {
        "user": "u-1",
        "safety_identifier": "s-1",
        "prompt_cache_key": "k",
        "metadata": {"a": "b"},
        "service_tier": "auto",
        "store": False,
        "verbosity": "low",
    },
    "unknown fields": {"x_unknown": {"model": "other"}, "logit_processors": None},
    "a priority of its own": {"priority": 3},
    "a request id": {"request_id": "mine"},
    "a cut prompt": {"truncate_prompt_tokens": 8},
    "a template's arguments": {"chat_template_kwargs": {"enable_thinking": False}},
    "a salt": {"cache_salt": "pepper"},
    "a name": {"messages": [{"role": "user", "name": "Ann", "content": "Name three colours."}]},
    "several languages": {"messages": [{"role": "user", "content": "日本語 🇫🇷 \u2028 \U0001f469\u200d\U0001f52c"}]},
}

ALSO_WHOLE = (
    "plain",
    "two choices",
    "logprobs",
    "stops",
    "begun and echoed",
    "token ids",
    "tokens as ids",
    "a JSON schema",
    "a named tool",
    "a tool of its choice",
    "some tool",
    "what OpenAI alone knows",
    "several languages",
)

WHOLE: dict[str, dict[str, Any]] = {
    "logprobs of the prompt": {"prompt_logprobs": 1},
    "all that one word may be": {"logprobs": True, "top_logprobs": 20, "max_tokens": 1},
    "beams": {"use_beam_search": True, "n": 2, "max_tokens": 4},
    "as many as there is room for": {"max_tokens": None, "stop": ["."]},
}

STREAMS: dict[str, dict[str, Any]] = {
    "usage": _WITH_USAGE,
    "usage that counts along": _COUNTING,
    "counts without usage": {"stream_options": {"continuous_usage_stats": True}},
    "empty options": {"stream_options": {}},
    "no options": {"stream_options": None},
    "usage of a tool": {"tools": [_WEATHER], "tool_choice": _NAMED, "max_tokens": 24} | _WITH_USAGE,
    "usage of two choices": {"n": 2, "temperature": 1, "seed": 7} | _WITH_USAGE,
    "interval": {"stream_options": {"include_usage": True}, "stream_interval": 2},
}

REFUSED: dict[str, dict[str, Any]] = {
    "no messages": {"messages": []},
    "messages that are none": {"messages": None},
    "a message without a role": {"messages": [{"content": "x"}]},
    "a wrong type": {"temperature": "hot"},
    "too hot": {"temperature": -1},
    "a wrong top_p": {"top_p": 1.5},
    "no choice": {"n": 0},
    "a wrong n": {"n": "two"},
    "half a priority": {"priority": 1.5},
    "a priority of nothing": {"priority": None},
    "a salt of half a surrogate pair": {"cache_salt": "\ud800"},
    "no tokens": {"max_tokens": 0},
    "fewer than none": {"max_completion_tokens": -1},
    "more than there is room for": {"max_tokens": 100_000},
    "minimum over maximum": {"min_tokens": 20, "max_tokens": 10},
    "too many logprobs": {"logprobs": True, "top_logprobs": 500},
    "top_logprobs alone": {"top_logprobs": 2},
    "negative logprobs": {"logprobs": True, "top_logprobs": -2},
    "logprobs of a streamed prompt": {"prompt_logprobs": 1, "stream": True},
    "a wrong schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": 3}}}},
    "a schema that is missing": {"response_format": {"type": "json_schema"}},
    "an unknown format": {"response_format": {"type": "poem"}},
    "a wrong regex": {"structured_outputs": {"regex": "([a-"}},
    "a wrong grammar": {"structured_outputs": {"grammar": "root ::= ("}},
    "two structures": {"structured_outputs": {"regex": "a", "choice": ["a"]}},
    "a tool that is not there": {"tools": [_WEATHER], "tool_choice": {"type": "function", "function": {"name": "x"}}},
    "a choice of no tools": {"tool_choice": "auto"},
    "some tool of none": {"tools": [], "tool_choice": "required"},
    "a wrong choice of tool": {"tools": [_WEATHER], "tool_choice": "perhaps"},
    "tools of a wrong type": {"tools": "get_weather"},
    "begun and not begun": {"continue_final_message": True, "add_generation_prompt": True},
    "options without a stream": {"stream": False, "stream_options": {"include_usage": True}},
    "options of a wrong type": {"stream": True, "stream_options": "all"},
    "a wrong stop": {"stop": 5},
    "a wrong bias": {"logit_bias": {"x": 1}},
    "a bias beyond": {"logit_bias": {"99999999": 1}},
    "a wrong seed": {"seed": "x"},
    "a wrong salt": {"cache_salt": ""},
    "too long": {"messages": [{"role": "user", "content": "word " * 5000}]},
    "an image for a model without eyes": {"messages": _image("data:image/png;base64,AAAA")},
    "beams in a stream with logprobs": {"use_beam_search": True, "stream": True, "top_logprobs": 99},
    "a wrong truncation": {"truncate_prompt_tokens": -5},
}


def body(fields: dict[str, Any], *, stream: bool | None = None) -> dict[str, Any]:
    asked = {"model": "demo-chat", "messages": _COLOURS, "max_tokens": 4, "temperature": 0} | fields
    return asked if stream is None else asked | {"stream": stream}

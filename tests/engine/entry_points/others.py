"""Responses, Messages and the counting of tokens, as vLLM's own tests of their entry points ask for them."""

from typing import Any

_QUESTION = "Name three colours."
_TOOL = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a city",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "maxLength": 8}},
        "required": ["city"],
        "additionalProperties": False,
    },
}
_CLAUDES_TOOL = {"name": "get_weather", "description": "Weather", "input_schema": _TOOL["parameters"]}
_USER = {"role": "user", "content": _QUESTION}
_PERSON = {"type": "object", "properties": {"age": {"type": "integer", "maximum": 9}}, "required": ["age"]}
_BEGUN = {
    "type": "message",
    "role": "assistant",
    "status": "incomplete",
    "id": "msg_1",
    "content": [{"type": "output_text", "text": "Red,", "annotations": []}],
}

# Asked for as a stream, and these of them whole too.
ALSO_WHOLE = ("plain", "metadata", "a tool that must be called")
RESPONSES: dict[str, dict[str, Any]] = {
    "plain": {},
    "instructions": {"instructions": "Be brief."},
    "a list": {"input": [_USER]},
    "content in parts": {"input": [{"role": "user", "content": [{"type": "input_text", "text": _QUESTION}]}]},
    "begun by the client": {"input": [_USER, _BEGUN]},
    "a tool": {"tools": [_TOOL], "max_output_tokens": 12},
    "a tool that must be called": {"tools": [_TOOL], "tool_choice": "required", "max_output_tokens": 32},
    "a format": {
        "text": {"format": {"type": "json_schema", "name": "person", "schema": _PERSON}},
        "max_output_tokens": 24,
    },
    "logprobs": {"include": ["message.output_text.logprobs"], "top_logprobs": 2},
    "metadata": {"metadata": {"model": "demo-chat", "a": "b"}, "user": "u-1"},
    "truncation": {"truncation": "auto"},
    "reasoning": {"reasoning": {"effort": "low"}},
}
REFUSED_RESPONSES: dict[str, dict[str, Any]] = {
    "no input": {"input": None},
    "an empty list": {"input": []},
    "a wrong type": {"max_output_tokens": "many"},
    "an unknown format": {"text": {"format": {"type": "poem"}}},
    "too long": {"input": "word " * 5000},
    "an unknown answer before": {"previous_response_id": "resp_none"},
    "too hot": {"temperature": 9},
}
MESSAGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "a system prompt": {"system": "Be brief."},
    "a system prompt in blocks": {"system": [{"type": "text", "text": "Be brief."}]},
    "content in blocks": {"messages": [{"role": "user", "content": [{"type": "text", "text": _QUESTION}]}]},
    "a stop": {"stop_sequences": ["e"]},
    "sampling": {"temperature": 0, "top_p": 0.9, "top_k": 4},
    "a tool": {"tools": [_CLAUDES_TOOL], "max_tokens": 12},
    "a tool that must be called": {"tools": [_CLAUDES_TOOL], "tool_choice": {"type": "any"}, "max_tokens": 32},
    "this tool": {"tools": [_CLAUDES_TOOL], "tool_choice": {"type": "tool", "name": "get_weather"}, "max_tokens": 32},
    "begun by the client": {"messages": [_USER, {"role": "assistant", "content": "Red,"}]},
    "metadata": {"metadata": {"user_id": "u-1"}},
}
REFUSED_MESSAGES: dict[str, dict[str, Any]] = {
    "no messages": {"messages": None},
    "an empty list": {"messages": []},
    "no limit": {"max_tokens": None},
    "a wrong role": {"messages": [{"role": "wizard", "content": "x"}]},
    "too long": {"messages": [{"role": "user", "content": "word " * 5000}]},
    "a wrong type": {"temperature": "hot"},
    "no tokens": {"max_tokens": 0},
}
# By path, whole.
COUNTING: dict[str, dict[str, dict[str, Any]]] = {
    "/tokenize": {
        "a text": {"prompt": "The sky is"},
        "texts of the tokens": {"prompt": "The sky is", "return_token_strs": True},
        "without special tokens": {"prompt": "The sky is", "add_special_tokens": False},
        "a chat": {"messages": [_USER]},
        "a chat with tools": {"messages": [_USER], "tools": [{"type": "function", "function": _CLAUDES_TOOL}]},
        "a chat that is begun": {
            "messages": [_USER, {"role": "assistant", "content": "Red"}],
            "continue_final_message": True,
            "add_generation_prompt": False,
        },
        "nothing": {},
        "a wrong type": {"prompt": 5},
    },
    "/detokenize": {
        "tokens": {"tokens": [504, 6376, 314]},
        "no tokens": {"tokens": []},
        "nothing": {},
        "a wrong type": {"tokens": "x"},
        "beyond the vocabulary": {"tokens": [99_999_999]},
        "below it": {"tokens": [-1]},
    },
    "/v1/messages/count_tokens": {
        "a message": {"messages": [_USER]},
        "a system prompt and tools": {"messages": [_USER], "system": "Be brief.", "tools": [_CLAUDES_TOOL]},
        "nothing": {},
    },
}


def response_body(fields: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    asked = {"model": "demo-chat", "input": _QUESTION, "max_output_tokens": 4, "temperature": 0, "stream": stream}
    return asked | fields


def message_body(fields: dict[str, Any], *, stream: bool) -> dict[str, Any]:
    return {"model": "demo-chat", "messages": [_USER], "max_tokens": 4, "temperature": 0, "stream": stream} | fields

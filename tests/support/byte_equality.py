"""The same request to an engine alone and through a gateway: what may differ, and nothing else."""

import re
from typing import Any

from tests.support.gateways import authorised
from tests.support.raw_http import RawResponse, call

# Each engine makes these anew for every request, whoever asks.
_VARYING = re.compile(
    rb'"(?:id|item_id|created|created_at|metrics|timings|[a-z_]+_ms|[a-z_]+_per_second|prompt_n|cache_n|cached_tokens|created_cache_tokens)"'
    rb':(?:"[^"]*"|-?[\d.e+-]+|null|\{[^}]*\})'
)
# Which origins may call is the gateway's to say, so an engine's own CORS headers do not pass.
_NOT_COMPARED = {"date", "content-length", "x-request-id", "access-control-allow-origin", "connection"}
# What the gateway adds, as docs/howto/call-the-gateway.md says.
_ADDED = {"server-timing", "request-id"}

_PROMPTS: dict[str, dict[str, Any]] = {
    "chat/completions": {"messages": [{"role": "user", "content": "Name three colours."}]},
    "messages": {"messages": [{"role": "user", "content": "Name three colours."}]},
    "messages/count_tokens": {"messages": [{"role": "user", "content": "Name three colours."}]},
    "responses": {"input": "Name three colours.", "max_output_tokens": 8},
    "tokenize": {"prompt": "The sky is"},
    "detokenize": {"tokens": [28120, 905]},
}

CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("chat/completions", {}),
    "chat stream": ("chat/completions", {"stream": True}),
    "chat stream with usage": ("chat/completions", {"stream": True, "stream_options": {"include_usage": True}}),
    "chat stream counting along": (
        "chat/completions",
        {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}},
    ),
    "chat stream declining usage": ("chat/completions", {"stream": True, "stream_options": {"include_usage": False}}),
    "chat logprobs": ("chat/completions", {"logprobs": True, "top_logprobs": 2}),
    "chat logprobs stream": ("chat/completions", {"logprobs": True, "top_logprobs": 2, "stream": True}),
    "chat one token": ("chat/completions", {"max_tokens": 1, "stream": True}),
    "chat stop": ("chat/completions", {"stop": ["Red", "the"], "stream": True}),
    "completion": ("completions", {}),
    "completion stream": ("completions", {"stream": True}),
    "completion stream with usage": ("completions", {"stream": True, "stream_options": {"include_usage": True}}),
    "completion echo": ("completions", {"echo": True}),
    "wrong type": ("chat/completions", {"temperature": "hot"}),
    "negative": ("chat/completions", {"max_tokens": -1}),
    "no messages": ("chat/completions", {"messages": None}),
    "bad stream options": ("chat/completions", {"stream": True, "stream_options": "all"}),
    "too long": ("chat/completions", {"messages": [{"role": "user", "content": "word " * 5000}]}),
    "too long stream": (
        "chat/completions",
        {"stream": True, "messages": [{"role": "user", "content": "word " * 5000}]},
    ),
    "unicode": (
        "chat/completions",
        {"stream": True, "messages": [{"role": "user", "content": "🌍 étoile \u2028 \\n"}]},
    ),
}


# What vLLM serves and llama.cpp does not.
VLLM_CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "response": ("responses", {}),
    "response stream": ("responses", {"stream": True}),
    "response with unknown fields": ("responses", {"x_unknown": {"a": [1]}, "metadata": {"model": "demo-chat"}}),
    "response of a wrong type": ("responses", {"max_output_tokens": "many"}),
    "response without input": ("responses", {"input": ...}),
    "response to an unknown one": ("responses", {"previous_response_id": "resp_x"}),
    "message": ("messages", {}),
    "message stream": ("messages", {"stream": True}),
    "message with a system prompt": ("messages", {"system": "Be brief.", "metadata": {"user_id": "u"}}),
    "message without messages": ("messages", {"messages": None}),
    "message too long": ("messages", {"messages": [{"role": "user", "content": "word " * 5000}]}),
    "message too long stream": (
        "messages",
        {"stream": True, "messages": [{"role": "user", "content": "word " * 5000}]},
    ),
    "message tokens": ("messages/count_tokens", {}),
    "tokenize": ("tokenize", {}),
    "tokenize a chat": ("tokenize", {"prompt": None, "messages": [{"role": "user", "content": "Hi"}]}),
    "tokenize with texts": ("tokenize", {"return_token_strs": True}),
    "tokenize nothing": ("tokenize", {"prompt": None}),
    "detokenize": ("detokenize", {}),
}


def body_of(case: str) -> tuple[str, dict[str, Any]]:
    path, fields = CASES.get(case) or VLLM_CASES[case]
    prompt = _PROMPTS.get(path, {"prompt": "The sky is"})
    prefix = "/" if path in {"tokenize", "detokenize"} else "/v1/"
    body = {"model": "demo-chat", "max_tokens": 8, "temperature": 0} | prompt | fields
    return prefix + path, {name: value for name, value in body.items() if value is not ...}


async def ask_both(engine_port: int, gateway_port: int, path: str, body: Any) -> tuple[RawResponse, RawResponse]:
    alone = await call(engine_port, "POST", path, body)
    through = await call(gateway_port, "POST", path, body, authorised())
    return alone, through


def without_varying(body: bytes) -> bytes:
    return _VARYING.sub(b'"_":_', body)


def assert_equal(alone: RawResponse, through: RawResponse) -> None:
    assert through.status_line == alone.status_line
    assert without_varying(through.body) == without_varying(alone.body)
    shown = _stable(through)
    if "server" in shown or "server" not in _stable(alone):  # else the gateway said it itself, in the engine's words
        assert {name: value for name, value in shown.items() if name not in _ADDED} == _stable(alone)


def _stable(response: RawResponse) -> dict[str, str]:
    """Headers by lower-case name, without those that differ from one request to the next."""
    headers = {name.lower(): value for name, value in response.headers}
    return {name: value for name, value in headers.items() if name not in _NOT_COMPARED}

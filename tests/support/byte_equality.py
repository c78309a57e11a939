"""The same request to an engine alone and through a gateway: what may differ, and nothing else."""

import re
from typing import Any

from tests.support.gateways import authorised
from tests.support.raw_http import RawResponse, call

# Each engine makes these anew for every request, whoever asks.
_VARYING = re.compile(
    rb'"(?:id|created|metrics|timings|[a-z_]+_ms|[a-z_]+_per_second|prompt_n|cache_n|cached_tokens|created_cache_tokens)"'
    rb':(?:"[^"]*"|-?[\d.e+-]+|null|\{[^}]*\})'
)
# Which origins may call is the gateway's to say, so an engine's own CORS headers do not pass.
_NOT_COMPARED = {"date", "content-length", "x-request-id", "access-control-allow-origin", "connection"}

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


def body_of(case: str) -> tuple[str, dict[str, Any]]:
    path, fields = CASES[case]
    prompt: dict[str, Any] = {"prompt": "The sky is"}
    if path == "chat/completions":
        prompt = {"messages": [{"role": "user", "content": "Name three colours."}]}
    return f"/v1/{path}", {"model": "demo-chat", "max_tokens": 8, "temperature": 0} | prompt | fields


async def ask_both(engine_port: int, gateway_port: int, path: str, body: Any) -> tuple[RawResponse, RawResponse]:
    alone = await call(engine_port, "POST", path, body)
    through = await call(gateway_port, "POST", path, body, authorised())
    return alone, through


def without_varying(body: bytes) -> bytes:
    return _VARYING.sub(b'"_":_', body)


def assert_equal(alone: RawResponse, through: RawResponse) -> None:
    assert through.status_line == alone.status_line
    assert without_varying(through.body) == without_varying(alone.body)
    assert _stable(through) == _stable(alone)


def _stable(response: RawResponse) -> dict[str, str]:
    """Headers by lower-case name, without those that differ from one request to the next."""
    headers = {name.lower(): value for name, value in response.headers}
    return {name: value for name, value in headers.items() if name not in _NOT_COMPARED}

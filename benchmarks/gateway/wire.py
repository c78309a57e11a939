"""What the mock engine and the load generator say to each other, for code that needs the same bytes."""

import json

MODEL = "bench-model"
API_KEY = "ty-bench-0123456789abcdef0123456789abcdef"
PROMPT_BYTES = 1024
# Each with a key of its own: API_KEY with its number behind it.
IDENTITIES = 50_000


def chat_request(*, is_stream: bool = False) -> bytes:
    """As the load generator sends it."""
    fields: dict[str, object] = {
        "model": MODEL,
        "messages": [{"role": "user", "content": "tell me more " * (PROMPT_BYTES // 13)}],
        "max_tokens": 64,
        "temperature": 0.7,
    }
    if is_stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    body = json.dumps(fields).encode()
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nAccept: */*\r\n"
        f"User-Agent: load\r\nAuthorization: Bearer {API_KEY}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def whole_answer() -> bytes:
    message = {"role": "assistant", "content": "lorem ipsum " * 30, "tool_calls": []}
    body = json.dumps(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "model": MODEL,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 211, "total_tokens": 243, "completion_tokens": 32},
        }
    ).encode()
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


def stream_head() -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
        + chunked(_event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}))
    )


def stream_chunk(number: int) -> bytes:
    """An event that brings a token and counts along, as vLLM does with continuous usage."""
    choice = {"index": 0, "delta": {"content": f" tok-{number}"}, "logprobs": None, "finish_reason": None}
    return chunked(_event({"choices": [choice], "usage": _usage(number + 1)}))


def stream_end(tokens: int) -> bytes:
    return chunked(_event({"choices": [], "usage": _usage(tokens)})) + chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def chunked(piece: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(piece), piece)


def _event(fields: dict[str, object]) -> bytes:
    common = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1764423156, "model": MODEL}
    return b"data: " + json.dumps(common | fields, separators=(",", ":")).encode() + b"\n\n"


def _usage(tokens: int) -> dict[str, int]:
    return {"prompt_tokens": 211, "total_tokens": 211 + tokens, "completion_tokens": tokens}

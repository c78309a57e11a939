"""How an API of named events says what another engine tells as a chat, going on from what has been said.

Each event is noted as said, so that a stream can be gone on with once more.
"""

import re
from typing import Any, Protocol

import msgspec

from workers.gateway.apis.spoken import Spoken, SpokenResponse
from workers.gateway.payload.bodies import Usage

_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_NUMBER = re.compile(rb'"sequence_number":\s*(\d+)')
_STOP_REASONS = {"length": "max_tokens", "stop": "end_turn"}


class End(msgspec.Struct, frozen=True):
    """`stop` is the text that ended it, None if it was none of the client's. `usage` is of all engines together."""

    finish_reason: str
    stop: str | None
    usage: Usage


class Voice(Protocol):
    @property
    def spoken(self) -> Spoken: ...

    def say(self, text: str) -> bytes:
        """The events that bring more of the text."""

    def close(self, end: End) -> bytes:
        """The events that are missing."""


def next_number(data: bytes) -> int:
    """Of the event after the one whose data this is."""
    numbers = _NUMBER.findall(data)
    return int(numbers[-1]) + 1 if numbers else 0


def _event(spoken: Spoken, name: str, fields: dict[str, Any]) -> bytes:
    data = _encode(fields)
    spoken.note(name.encode(), data)
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"


class MessageVoice:
    """Anthropic's Messages."""

    def __init__(self, spoken: Spoken) -> None:
        self.spoken = spoken

    def say(self, text: str) -> bytes:
        delta = {"type": "text_delta", "text": text}
        return self._opened() + self._event("content_block_delta", {"delta": delta, "index": 0})

    def close(self, end: End) -> bytes:
        usage = {
            "input_tokens": (end.usage.prompt_tokens or 0) - end.usage.cached_tokens,
            "output_tokens": end.usage.completion_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": end.usage.cached_tokens,
        }
        reason = "stop_sequence" if end.stop is not None else _STOP_REASONS.get(end.finish_reason, "end_turn")
        events: list[tuple[str, dict[str, Any]]] = [
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": end.stop}, "usage": usage}),
            ("message_stop", {}),
        ]
        opened = self._opened()
        return opened + b"".join([self._event(*event) for event in events[self.spoken.closings :]])

    def _opened(self) -> bytes:
        if self.spoken.is_open:
            return b""
        block = {"content_block": {"type": "text", "text": ""}, "index": 0}
        return self._event("content_block_start", block)

    def _event(self, name: str, fields: dict[str, Any]) -> bytes:
        return _event(self.spoken, name, {"type": name} | fields)


class ResponseVoice:
    """OpenAI's Responses. What the first event told of the response, the last one tells too."""

    def __init__(self, spoken: SpokenResponse, public_model: str) -> None:
        self.spoken = spoken
        self._response: dict[str, Any] = _decode(spoken.opening).get("response", {}) | {"model": public_model}
        item = _decode(spoken.item).get("item", {}) if spoken.item else {}
        self._item_id = item.get("id") or str(self._response.get("id", "")).replace("resp_", "msg_", 1)

    def say(self, text: str) -> bytes:
        place: dict[str, Any] = {"content_index": 0, "delta": text, "item_id": self._item_id}
        return self._opened() + self._event("response.output_text.delta", place | {"logprobs": [], "output_index": 0})

    def close(self, end: End) -> bytes:
        opened = self._opened()
        text = msgspec.json.decode(b'"' + bytes(self.spoken.text or b"") + b'"')
        part = {"annotations": [], "text": text, "type": "output_text", "logprobs": None}
        item = self._item("completed", [part])
        status = "incomplete" if end.finish_reason == "length" else "completed"
        place = {"content_index": 0, "item_id": self._item_id}
        events: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
            ("response.output_text.done", place | {"logprobs": [], "output_index": 0}, {"text": text}),
            ("response.content_part.done", place | {"output_index": 0, "part": part}, {}),
            ("response.output_item.done", {"item": item, "output_index": 0}, {}),
            ("response.completed", {"response": self._ended(status, item, end.usage)}, {}),
        ]
        return opened + b"".join([self._event(*event) for event in events[self.spoken.closings :]])

    def _opened(self) -> bytes:
        if self.spoken.is_open:
            return b""
        added = b""
        if not self.spoken.item:
            item = self._item("in_progress", [])
            added = self._event("response.output_item.added", {"item": item, "output_index": 0})
        part = {"annotations": [], "text": "", "type": "output_text", "logprobs": []}
        place = {"content_index": 0, "item_id": self._item_id, "output_index": 0, "part": part}
        return added + self._event("response.content_part.added", place)

    def _item(self, status: str, content: list[Any]) -> dict[str, Any]:
        fields = {"id": self._item_id, "content": content, "role": "assistant", "status": status}
        return fields | {"type": "message", "phase": None}

    def _ended(self, status: str, item: dict[str, Any], usage: Usage) -> dict[str, Any]:
        details = {"reason": "max_output_tokens"} if status == "incomplete" else None
        changes = {"incomplete_details": details, "output": [item], "status": status, "usage": _usage(usage)}
        return self._response | changes

    def _event(self, name: str, fields: dict[str, Any], after: dict[str, Any] | None = None) -> bytes:
        numbered = fields | {"sequence_number": next_number(self.spoken.last)} | (after or {})
        return _event(self.spoken, name, numbered | {"type": name})


def _usage(usage: Usage) -> dict[str, Any]:
    tokens_in, tokens_out = usage.prompt_tokens or 0, usage.completion_tokens or 0
    cached = {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0}
    reasoning = {"reasoning_tokens": usage.reasoning_tokens, "tool_output_tokens": 0}
    return {
        "input_tokens": tokens_in,
        "input_tokens_details": cached | {"input_tokens_per_turn": [], "cached_tokens_per_turn": []},
        "output_tokens": tokens_out,
        "output_tokens_details": reasoning | {"output_tokens_per_turn": [], "tool_output_tokens_per_turn": []},
        "total_tokens": tokens_in + tokens_out,
    }

"""Answers of OpenAI's Responses and Anthropic's Messages, key for key in vLLM 0.32's order."""

from typing import Any

from workers.engines.fake.calls import GenerationCall
from workers.engines.fake.errors import APIError
from workers.engines.fake.plan import AnswerPlan
from workers.engines.fake.shapes import Timings, Usage, encode, whole_metrics

_STOP_REASONS = {"length": "max_tokens", "stop": "end_turn"}


def named_event(name: str, content: Any) -> bytes:
    return f"event: {name}\ndata: ".encode() + encode(content) + b"\n\n"


class MessagesWriter:
    """`head` is that of a chat; there is one choice."""

    def __init__(self, head: dict[str, Any], call: GenerationCall) -> None:
        del call
        self._head = {"id": head["id"], "type": "message", "role": "assistant"}
        self._model = head["model"]

    def started(self) -> list[bytes]:
        return []

    def opening(self, choices: list[int], usage: Usage) -> list[bytes]:
        del choices
        message = self._head | {"content": [], "model": self._model, "stop_reason": None, "stop_sequence": None}
        message["usage"] = {"input_tokens": usage.prompt_tokens, "output_tokens": 0}
        block = {"type": "content_block_start", "content_block": {"type": "text", "text": ""}, "index": 0}
        start = {"type": "message_start", "message": message}
        return [named_event("message_start", start), named_event("content_block_start", block)]

    def text(self, index: int, plan: AnswerPlan, start: int, end: int, usage: Usage | None) -> bytes:
        del index, usage
        delta = {"type": "text_delta", "text": plan.text(start, end)}
        return named_event("content_block_delta", {"type": "content_block_delta", "delta": delta, "index": 0})

    def ending(self, plan: AnswerPlan, usage: Usage, timings: Timings | None) -> list[bytes]:
        del timings
        delta = {"stop_reason": _stop_reason(plan), "stop_sequence": plan.stop_reason}
        end = {"type": "message_delta", "delta": delta, "usage": _messages_usage(usage)}
        return [
            named_event("content_block_stop", {"type": "content_block_stop", "index": 0}),
            named_event("message_delta", end),
            named_event("message_stop", {"type": "message_stop"}),
        ]

    def broken(self, error: APIError) -> list[bytes]:
        content = {"type": "internal_error", "message": error.body["error"]["message"]}
        return [named_event("error", {"type": "error", "error": content})]

    def whole(self, plans: list[AnswerPlan], usage: Usage, timings: Timings | None) -> bytes:
        del timings
        [plan] = plans
        content = [{"type": "text", "text": plan.text()}]
        answer = self._head | {"content": content, "model": self._model, "stop_reason": _stop_reason(plan)}
        if plan.stop_reason:
            answer["stop_sequence"] = plan.stop_reason
        return encode(answer | {"usage": _messages_usage(usage)})


def _stop_reason(plan: AnswerPlan) -> str:
    return "stop_sequence" if plan.stop_reason else _STOP_REASONS[plan.finish_reason]


def _messages_usage(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens - usage.created_tokens,
        "output_tokens": usage.completion_tokens,
        "cache_creation_input_tokens": usage.created_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
    }


class ResponsesWriter:
    """`head` has the ids; events are numbered as they are made."""

    def __init__(self, head: dict[str, Any], call: GenerationCall) -> None:
        self._head = head
        self._call = call
        self._sequence_number = 0
        self._item_id = head["id"].replace("resp_", "msg_", 1)

    def started(self) -> list[bytes]:
        response = self._response("in_progress", [], None)
        return [self._event(name, {"response": response}) for name in ("response.created", "response.in_progress")]

    def opening(self, choices: list[int], usage: Usage) -> list[bytes]:
        del choices, usage
        part = {"annotations": [], "text": "", "type": "output_text", "logprobs": []}
        return [
            self._event("response.output_item.added", {"item": self._item("in_progress", []), "output_index": 0}),
            self._event("response.content_part.added", self._place() | {"part": part}),
        ]

    def text(self, index: int, plan: AnswerPlan, start: int, end: int, usage: Usage | None) -> bytes:
        del index, usage
        fields = {"content_index": 0, "delta": plan.text(start, end), "item_id": self._item_id, "logprobs": []}
        return self._event("response.output_text.delta", fields | {"output_index": 0})

    def ending(self, plan: AnswerPlan, usage: Usage, timings: Timings | None) -> list[bytes]:
        del timings
        part = _text_part(plan)
        item = self._item("completed", [part])
        place = {"content_index": 0, "item_id": self._item_id}
        text = self._event("response.output_text.done", place | {"logprobs": [], "output_index": 0}, plan.text())
        return [
            text,
            self._event("response.content_part.done", self._place() | {"part": part}),
            self._event("response.output_item.done", {"item": item, "output_index": 0}),
            self._event("response.completed", {"response": self._response(_status(plan), [item], usage)}),
        ]

    def broken(self, error: APIError) -> list[bytes]:
        fields = {"code": None, "message": error.body["error"]["message"], "param": None}
        return [self._event("error", fields)]

    def whole(self, plans: list[AnswerPlan], usage: Usage, timings: Timings | None) -> bytes:
        [plan] = plans
        item = self._item("completed", [_text_part(plan)])
        response = self._response(_status(plan), [item], usage)
        if timings is None:
            return encode(response)
        tail = {name: response.pop(name) for name in list(response)[list(response).index("presence_penalty") :]}
        return encode(response | {"metrics": whole_metrics(timings)} | tail)

    def _event(self, name: str, fields: dict[str, Any], text: str | None = None) -> bytes:
        numbered = fields | {"sequence_number": self._sequence_number}
        self._sequence_number += 1
        if text is not None:
            numbered["text"] = text
        return named_event(name, numbered | {"type": name})

    def _place(self) -> dict[str, Any]:
        return {"content_index": 0, "item_id": self._item_id, "output_index": 0}

    def _item(self, status: str, content: list[Any]) -> dict[str, Any]:
        fields = {"id": self._item_id, "content": content, "role": "assistant", "status": status}
        return fields | {"type": "message", "phase": None}

    def _response(self, status: str, output: list[Any], usage: Usage | None) -> dict[str, Any]:
        call = self._call
        return {
            "id": self._head["id"],
            "created_at": self._head["created"],
            "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
            "instructions": call.instructions,
            "metadata": call.metadata,
            "model": self._head["model"],
            "object": "response",
            "output": output,
            "parallel_tool_calls": True,
            "temperature": call.temperature,
            "tool_choice": "none",
            "tools": [],
            "top_p": 1.0,
            "background": False,
            "max_output_tokens": call.max_tokens,
            **dict.fromkeys(("max_tool_calls", "previous_response_id", "prompt", "reasoning")),
            "service_tier": "auto",
            "status": status,
            **dict.fromkeys(("text", "top_logprobs")),
            "truncation": "disabled",
            "usage": _responses_usage(usage) if usage else None,
            "user": None,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            **dict.fromkeys(("kv_transfer_params", "ec_transfer_params", "input_messages", "output_messages")),
        }


def _status(plan: AnswerPlan) -> str:
    return "incomplete" if plan.finish_reason == "length" else "completed"


def _text_part(plan: AnswerPlan) -> dict[str, Any]:
    return {"annotations": [], "text": plan.text(), "type": "output_text", "logprobs": None}


def _responses_usage(usage: Usage) -> dict[str, Any]:
    cached = {"cached_tokens": usage.cached_tokens, "cache_write_tokens": usage.created_tokens}
    reasoning = {"reasoning_tokens": 0, "tool_output_tokens": 0}
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": cached | {"input_tokens_per_turn": [], "cached_tokens_per_turn": []},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": reasoning | {"output_tokens_per_turn": [], "tool_output_tokens_per_turn": []},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }

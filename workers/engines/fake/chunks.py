"""Stream events of one request, as bytes. What does not change from token to token is encoded once."""

import json
from typing import Any

from workers.engines.fake.calls import GenerationCall
from workers.engines.fake.errors import APIError
from workers.engines.fake.plan import AnswerPlan
from workers.engines.fake.shapes import (
    FINGERPRINT,
    Timings,
    Usage,
    chat_choice,
    chat_logprobs,
    completion_choice,
    completion_logprobs,
    encode,
    final_usage,
    running_usage,
    stream_metrics,
    whole_answer,
)

DONE = b"data: [DONE]\n\n"


def event(content: bytes) -> bytes:
    return b"data: " + content + b"\n\n"


def error_event(error: APIError) -> bytes:
    """Written with the standard library's spacing, as vLLM does for this one."""
    return event(json.dumps(error.body).encode())


class ChunkWriter:
    """`head` is the beginning of each event: id, object, created, model."""

    def __init__(self, head: dict[str, Any], call: GenerationCall) -> None:
        self._head = head
        self._opening = b"data: " + encode(head)[:-1] + b',"choices":['
        self._call = call

    def started(self) -> list[bytes]:
        """Before the prompt is read."""
        return []

    def opening(self, choices: list[int], usage: Usage) -> list[bytes]:
        """With the first token of any choice."""
        running = usage if self._call.continuous_usage else None
        return [self.role(index, running) for index in choices] if self._call.is_chat else []

    def ending(self, plan: AnswerPlan, usage: Usage, timings: Timings | None) -> list[bytes]:
        del plan
        return [self.usage(usage, timings), DONE] if self._call.includes_usage else [DONE]

    def broken(self, error: APIError) -> list[bytes]:
        return [error_event(error), DONE]

    def whole(self, plans: list[AnswerPlan], usage: Usage, timings: Timings | None) -> bytes:
        build = chat_choice if self._call.is_chat else completion_choice
        choices = [build(index, plan, self._whole_logprobs(plan)) for index, plan in enumerate(plans)]
        return whole_answer(self._head, choices, usage, timings, is_chat=self._call.is_chat)

    def role(self, index: int, usage: Usage | None) -> bytes:
        """The first event of a chat's choice, which has no text."""
        choice = b'{"index":%d,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]' % index
        tail = b',"prompt_token_ids":null,"prompt_text":null}\n\n'
        return self._opening + choice + self._running(usage) + tail

    def text(self, index: int, plan: AnswerPlan, start: int, end: int, usage: Usage | None) -> bytes:
        """Tokens `start` to `end` of a choice; the last carries the finish reason. `usage` when it runs along."""
        finish = plan.finish_reason if end == len(plan.tokens) else None
        content = encode(plan.text(start, end))
        logprobs = self._logprobs(plan, start, end)
        choice = self._chat_choice if self._call.is_chat else self._completion_choice
        tail = self._running(usage if self._call.continuous_usage else None)
        if finish and not self._call.includes_usage:
            tail += b',"system_fingerprint":' + encode(FINGERPRINT)
        return self._opening + choice(index, content, logprobs, finish, plan.stop_reason) + b"]" + tail + b"}\n\n"

    def usage(self, usage: Usage, timings: Timings | None) -> bytes:
        body = {"usage": final_usage(usage, is_chat=self._call.is_chat), "system_fingerprint": FINGERPRINT}
        if timings:
            body["metrics"] = stream_metrics(timings)
        return self._opening + b"]," + encode(body)[1:] + b"\n\n"

    def _chat_choice(
        self, index: int, content: bytes, logprobs: bytes, finish: str | None, stop_reason: str | None
    ) -> bytes:
        stop = b',"stop_reason":' + encode(stop_reason) if finish else b""
        return b'{"index":%d,"delta":{"content":%b},"logprobs":%b,"finish_reason":%b%b,"token_ids":null}' % (
            index,
            content,
            logprobs,
            encode(finish),
            stop,
        )

    def _completion_choice(
        self, index: int, content: bytes, logprobs: bytes, finish: str | None, stop_reason: str | None
    ) -> bytes:
        ends = b'"finish_reason":%b,"stop_reason":%b' % (encode(finish), encode(stop_reason if finish else None))
        tail = b',"prompt_token_ids":null,"token_ids":null}'
        return b'{"index":%d,"text":%b,"logprobs":%b,%b%b' % (index, content, logprobs, ends, tail)

    def _logprobs(self, plan: AnswerPlan, start: int, end: int) -> bytes:
        top = self._call.top_logprobs
        if top is None:
            return b"null"
        tokens = plan.tokens[start:end]
        if self._call.is_chat:
            return encode(chat_logprobs(tokens, top))
        return encode(completion_logprobs(tokens, top, len("".join(plan.tokens[:start]))))

    def _whole_logprobs(self, plan: AnswerPlan) -> dict[str, Any] | None:
        top = self._call.top_logprobs
        if top is None:
            return None
        return chat_logprobs(plan.tokens, top) if self._call.is_chat else completion_logprobs(plan.tokens, top)

    def _running(self, usage: Usage | None) -> bytes:
        return b"" if usage is None else b',"usage":' + encode(running_usage(usage, is_chat=self._call.is_chat))

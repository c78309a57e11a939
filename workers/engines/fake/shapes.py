"""JSON of vLLM's answers and stream events, key for key in vLLM 0.32's order."""

import math
from typing import Any

import msgspec
from msgspec import Struct

from workers.engines.fake.plan import AnswerPlan
from workers.engines.fake.words import WORDS, seeded

VERSION = "0.32.0"
FINGERPRINT = "vllm-0.32.0-3dfc2790"

encode = msgspec.json.encode


class Usage(Struct, frozen=True, kw_only=True):
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int
    created_tokens: int

    def head(self) -> dict[str, Any]:
        total = self.prompt_tokens + self.completion_tokens
        return {
            "prompt_tokens": self.prompt_tokens,
            "total_tokens": total,
            "completion_tokens": self.completion_tokens,
        }


class Timings(Struct, frozen=True, kw_only=True):
    """In seconds, as the engine measured them."""

    ttft_s: float
    generation_s: float
    queue_s: float
    tokens: int

    def metrics(self) -> dict[str, Any]:
        total_s = self.ttft_s + self.generation_s
        return {
            "time_to_first_token_ms": self.ttft_s * 1000,
            "generation_time_ms": self.generation_s * 1000,
            "queue_time_ms": self.queue_s * 1000,
            "mean_itl_ms": self.generation_s * 1000 / (self.tokens - 1) if self.tokens > 1 else None,
            "tokens_per_second": self.tokens / total_s if total_s else None,
        }


def whole_usage(usage: Usage, *, is_chat: bool) -> dict[str, Any]:
    details = {
        "cached_tokens": usage.cached_tokens,
        "created_cache_tokens": usage.created_tokens if is_chat else None,
        "multimodal_tokens": None,
    }
    return usage.head() | {"prompt_tokens_details": details, "completion_tokens_details": None}


def final_usage(usage: Usage, *, is_chat: bool) -> dict[str, Any]:
    """Of the last event of a stream, where vLLM leaves out what is null."""
    details = {"cached_tokens": usage.cached_tokens}
    if is_chat:
        details["created_cache_tokens"] = usage.created_tokens
    return usage.head() | {"prompt_tokens_details": details}


def running_usage(usage: Usage, *, is_chat: bool) -> dict[str, Any]:
    return usage.head() | ({"completion_tokens_details": None} if is_chat else {})


def whole_metrics(timings: Timings | None) -> dict[str, Any] | None:
    return timings.metrics() | {"speculative_decoding": None} if timings else None


def stream_metrics(timings: Timings) -> dict[str, Any]:
    return {name: value for name, value in timings.metrics().items() if value is not None}


def chat_choice(index: int, plan: AnswerPlan, logprobs: Any) -> dict[str, Any]:
    message = {
        "role": "assistant",
        "content": plan.text(),
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        "reasoning": None,
    }
    return {
        "index": index,
        "message": message,
        "logprobs": logprobs,
        "finish_reason": plan.finish_reason,
        "stop_reason": plan.stop_reason,
        "token_ids": None,
        "routed_experts": None,
    }


def completion_choice(index: int, plan: AnswerPlan, logprobs: Any) -> dict[str, Any]:
    return {
        "index": index,
        "text": plan.text(),
        "logprobs": logprobs,
        "finish_reason": plan.finish_reason,
        "stop_reason": plan.stop_reason,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "routed_experts": None,
    }


def whole_answer(
    head: dict[str, Any], choices: list[dict[str, Any]], usage: Usage, timings: Timings | None, *, is_chat: bool
) -> bytes:
    prompt = {"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None} if is_chat else {}
    answer = {
        **head,
        "choices": choices,
        "service_tier": None,
        "system_fingerprint": FINGERPRINT,
        "usage": whole_usage(usage, is_chat=is_chat),
        **prompt,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": whole_metrics(timings),
    }
    return encode(answer)


def embedding_answer(head: dict[str, Any], embeddings: list[Any], prompt_tokens: int) -> bytes:
    items = [{"index": index, "object": "embedding", "embedding": item} for index, item in enumerate(embeddings)]
    return encode({**head, "data": items, "usage": pooling_usage(prompt_tokens)})


def pooling_usage(prompt_tokens: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt_tokens,
        "total_tokens": prompt_tokens,
        "completion_tokens": 0,
        "prompt_tokens_details": None,
        "completion_tokens_details": None,
    }


def model_list(name: str, created: int, max_model_tokens: int, permission_id: str) -> bytes:
    permission = {
        "id": f"modelperm-{permission_id}",
        "object": "model_permission",
        "created": created,
        "allow_create_engine": False,
        "allow_sampling": True,
        "allow_logprobs": True,
        "allow_search_indices": False,
        "allow_view": True,
        "allow_fine_tuning": False,
        "organization": "*",
        "group": None,
        "is_blocking": False,
    }
    model = {
        "id": name,
        "object": "model",
        "created": created,
        "owned_by": "vllm",
        "root": name,
        "parent": None,
        "max_model_len": max_model_tokens,
        "permission": [permission],
    }
    return encode({"object": "list", "data": [model]})


def _alternatives(token: str, top: int) -> list[tuple[str, float]]:
    """Made-up log-probabilities that are the same each time, best first; the token itself leads."""
    source = seeded("logprobs", token)
    best = source.uniform(0.4, 0.9)
    others = [f" {word}" for word in source.sample(WORDS, max(top - 1, 0))]
    rest = (1 - best) / 2
    return [(token, math.log(best)), *((other, math.log(rest / 2**rank)) for rank, other in enumerate(others))]


def chat_logprobs(tokens: list[str], top: int) -> dict[str, Any]:
    def entry(token: str, logprob: float) -> dict[str, Any]:
        return {"token": token, "logprob": logprob, "bytes": list(token.encode("utf-8", "replace"))}

    content = []
    for token in tokens:
        alternatives = [entry(*item) for item in _alternatives(token, top)]
        content.append({**alternatives[0], "top_logprobs": alternatives[:top]})
    return {"content": content}


def completion_logprobs(tokens: list[str], top: int, offset: int = 0) -> dict[str, Any]:
    offsets = []
    for token in tokens:
        offsets.append(offset)
        offset += len(token)
    alternatives = [_alternatives(token, top) for token in tokens]
    return {
        "text_offset": offsets,
        "token_logprobs": [items[0][1] for items in alternatives],
        "tokens": tokens,
        "top_logprobs": [dict(items[: max(top, 1)]) for items in alternatives],
    }

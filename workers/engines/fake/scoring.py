"""Rerank and score with an embedding model: how near two texts' vectors are, as vLLM does it."""

from typing import Any

from workers.engines.fake.embedding import vector_of
from workers.engines.fake.errors import bad_request
from workers.engines.fake.fields import Fields
from workers.engines.fake.inputs import EmbeddingCall, check_inputs
from workers.engines.fake.served import Served, check_model
from workers.engines.fake.shapes import encode, pooling_usage
from workers.engines.fake.words import split_tokens


def read_rerank(body: dict[str, Any], served: Served) -> EmbeddingCall:
    """Inputs are the query and the documents."""
    fields = Fields(body)
    query, documents = fields.require("query"), fields.require("documents")
    return _call(fields, served, [query], documents)


def read_score(body: dict[str, Any], served: Served) -> EmbeddingCall:
    """Inputs are the left texts (one or as many as right ones) and the right ones."""
    fields = Fields(body)
    left, right = fields.require("text_1"), fields.require("text_2")
    return _call(fields, served, _texts(left), _texts(right))


def answer_rerank(call: EmbeddingCall, request_id: str, model: str, documents: list[str], top_n: Any) -> bytes:
    ranked = sorted(enumerate(_scores(call)), key=lambda item: -item[1])
    if isinstance(top_n, int) and top_n > 0:
        ranked = ranked[:top_n]
    results = [
        {"index": index, "document": {"text": documents[index], "multi_modal": None}, "relevance_score": score}
        for index, score in ranked
    ]
    tokens = sum(map(len, call.inputs))
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    return encode({"id": f"score-{request_id}", "model": model, "usage": usage, "results": results})


def answer_score(call: EmbeddingCall, head: dict[str, Any]) -> bytes:
    items = [{"index": index, "object": "score", "score": score} for index, score in enumerate(_scores(call))]
    return encode({**head, "data": items, "usage": pooling_usage(sum(map(len, call.inputs)))})


def _call(fields: Fields, served: Served, left: Any, right: Any) -> EmbeddingCall:
    texts = [left, right]
    if not all(isinstance(side, list) and all(isinstance(text, str) for text in side) for side in texts):
        fields.refuse("documents", "list_type", "Input should be a valid list", right)
    fields.close()
    check_model(fields, served)
    if not left or not right:
        raise bad_request("At least one text_pair element must be given")
    inputs = [split_tokens(text) for text in [*left, *right]]
    check_inputs(inputs, served)
    return EmbeddingCall(inputs=inputs, is_base64=False, priority=0, request_id=None, left_inputs=len(left))


def _texts(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _scores(call: EmbeddingCall) -> list[float]:
    vectors = [vector_of(tokens, 64) for tokens in call.inputs]
    left, right = vectors[: call.left_inputs], vectors[call.left_inputs :]
    return [sum(a * b for a, b in zip(left[i % len(left)], each, strict=True)) for i, each in enumerate(right)]

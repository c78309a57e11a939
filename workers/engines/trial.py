"""The real request that proves an engine, in the OpenAI form that all our engines speak."""

import msgspec
from msgspec import Struct

from workers.contracts.desired import ReplicaSpec
from workers.engines.interface import TrialRequest


class _Choice(Struct):
    text: str


class _Completion(Struct):
    choices: list[_Choice]


class _Item(Struct):
    embedding: list[float]


class _Embedding(Struct):
    data: list[_Item]


def trial_request(spec: ReplicaSpec) -> TrialRequest:
    """One token of a completion (which, unlike a chat, needs no template), or one embedding."""
    if spec.task == "embed":
        body = {"model": spec.served_name, "input": "hello"}
        return TrialRequest(path="/v1/embeddings", body=msgspec.json.encode(body))
    completion = {"model": spec.served_name, "prompt": "hello", "max_tokens": 1, "temperature": 0}
    return TrialRequest(path="/v1/completions", body=msgspec.json.encode(completion))


def is_real_answer(spec: ReplicaSpec, status: int, body: bytes) -> bool:
    if status != 200:  # noqa: PLR2004 200 is its own name
        return False
    try:
        if spec.task == "embed":
            return any(item.embedding for item in msgspec.json.decode(body, type=_Embedding).data)
        return bool(msgspec.json.decode(body, type=_Completion).choices)
    except msgspec.DecodeError:
        return False

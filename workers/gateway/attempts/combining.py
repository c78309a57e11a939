"""Embedding requests that become one, and its answer that becomes theirs again. Values keep the bytes they came in."""

from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct

Kind = Literal["text", "tokens"]
# Each request's own, and without meaning for the vectors.
_OWN_FIELDS = ("input", "user")

_decode_fields = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_items = msgspec.json.Decoder(list[dict[str, Raw]]).decode


class Inputs(Struct, frozen=True, eq=False):
    """What a request wants embedded; `weights` are bytes of texts, or how many token ids.

    `fields` are all but its own: requests with the same ones and of one kind may go as one.
    """

    kind: Kind
    items: list[Raw]
    weights: list[int]
    fields: dict[str, Raw]

    @property
    def key(self) -> tuple[str, tuple[tuple[str, bytes], ...]]:
        return self.kind, tuple(sorted([(name, bytes(value)) for name, value in self.fields.items()]))


def read_inputs(body: bytes) -> Inputs | None:
    """None of what cannot share a call, sound or not: that is the engine's to judge."""
    try:
        fields = _decode_fields(body)
        found = _inputs_of(bytes(fields["input"]))
    except (msgspec.DecodeError, KeyError, RecursionError):
        return None
    if found is None:
        return None
    kind, items = found
    weights = [len(_decode_list(item)) if kind == "tokens" else len(bytes(item)) for item in items]
    return Inputs(kind, items, weights, {name: value for name, value in fields.items() if name not in _OWN_FIELDS})


def _inputs_of(value: bytes) -> tuple[Kind, list[Raw]] | None:
    if value[:1] == b'"':
        return "text", [Raw(value)]
    items = _decode_list(value)
    kinds = "".join(sorted({_kind_of(bytes(item)) for item in items}))
    if kinds == "text":
        return "text", items
    if kinds == "number":
        return "tokens", [Raw(value)]
    return ("tokens", items) if kinds == "list" and all(_is_numbers(item) for item in items) else None


def _kind_of(value: bytes) -> str:
    first = value[:1]
    if first == b'"':
        return "text"
    return "list" if first == b"[" else "number" if value.isdigit() else "other"


def _is_numbers(value: Raw) -> bool:
    numbers = _decode_list(value)
    return bool(numbers) and all(bytes(number).isdigit() for number in numbers)


def combine(requests: list[Inputs]) -> bytes:
    """One body with what all of them want, in their order."""
    items = [item for request in requests for item in request.items]
    return msgspec.json.encode({**requests[0].fields, "input": items})


def split(body: bytes, requests: list[Inputs]) -> list[bytes] | None:
    """An answer for each of them; None when it is not what an engine says to so many inputs."""
    try:
        answer: dict[str, Any] = dict(_decode_fields(body))
        items = sorted(_decode_items(answer["data"]), key=lambda item: int(bytes(item["index"])))
        usage = msgspec.json.decode(answer["usage"], type=dict[str, Any])
        indexes = [int(bytes(item["index"])) for item in items]
    except (msgspec.DecodeError, KeyError, ValueError):
        return None
    if indexes != list(range(sum([len(request.items) for request in requests]))):
        return None
    usages = _split_usage(usage, [sum(request.weights) for request in requests])
    answers, start = [], 0
    for request, its_usage in zip(requests, usages, strict=True):
        its_items = items[start : start + len(request.items)]
        start += len(request.items)
        data = [{**item, "index": index} for index, item in enumerate(its_items)]
        answers.append(msgspec.json.encode({**answer, "data": data, "usage": its_usage}))
    return answers


def _split_usage(usage: dict[str, Any], weights: list[int]) -> list[dict[str, Any]]:
    """The prompt in proportion; an embedding generates nothing. What is told in detail is told of the whole only."""
    shares = shares_of(usage["prompt_tokens"] if isinstance(usage.get("prompt_tokens"), int) else 0, weights)
    plain = {name: value for name, value in usage.items() if not isinstance(value, dict)}
    return [{**plain, "prompt_tokens": share, "total_tokens": share} for share in shares]


def shares_of(total: int, weights: list[int]) -> list[int]:
    """Whole numbers in proportion to the weights that add up to the total exactly."""
    whole, passed, given = sum(weights), 0, 0
    shares = []
    for weight in weights:
        passed += weight
        until = total * passed // whole if whole else 0
        shares.append(until - given)
        given = until
    if shares and not whole:
        shares[-1] = total
    return shares

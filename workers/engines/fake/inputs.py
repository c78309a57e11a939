"""Request bodies of what is only read: embeddings, and texts to count."""

from typing import Any

from msgspec import Struct

from workers.engines.fake.errors import bad_request, too_long
from workers.engines.fake.fields import Fields
from workers.engines.fake.messages import read_messages
from workers.engines.fake.served import Served, check_model, read_priority
from workers.engines.fake.words import TokenIds, chat_tokens, split_tokens


class EmbeddingCall(Struct, frozen=True, kw_only=True):
    """`left_inputs` of the inputs are compared with the others, where that is what was asked for."""

    inputs: list[list[str]]
    is_base64: bool
    priority: int
    request_id: str | None
    left_inputs: int = 0


def read_embedding(body: dict[str, Any], served: Served, priority: str | None, ids: TokenIds) -> EmbeddingCall:
    fields = Fields(body)
    inputs = read_inputs(fields.require("input"), ids)
    call = EmbeddingCall(
        inputs=inputs,
        is_base64=fields.text("encoding_format") == "base64",
        priority=read_priority(fields, priority),
        request_id=fields.text("request_id"),
    )
    fields.close()
    check_model(fields, served)
    check_inputs(inputs, served)
    return call


def check_inputs(inputs: list[list[str]], served: Served) -> None:
    """Each is something to read, and not too much."""
    if not inputs or not all(inputs):
        raise bad_request("The decoder prompt cannot be empty")
    for tokens in inputs:
        if len(tokens) > served.max_model_tokens:
            raise too_long(served.max_model_tokens, len(tokens))


def read_inputs(value: Any, ids: TokenIds) -> list[list[str]]:
    """A text, texts, token ids, or lists of token ids."""
    if isinstance(value, str):
        return [split_tokens(value)]
    if not isinstance(value, list):
        return []
    if value and all(isinstance(item, int) for item in value):
        return [[ids.decode(item) for item in value]]
    return [tokens for item in value for tokens in read_inputs(item, ids)]


def read_tokenize(body: dict[str, Any], served: Served) -> list[str]:
    fields = Fields(body)
    if "messages" in fields:
        tokens = chat_tokens(read_messages(fields))
    else:
        fields.require("prompt")
        tokens = split_tokens(fields.text("prompt") or "")
    fields.close()
    check_model(fields, served)
    return tokens


def read_detokenize(body: dict[str, Any], served: Served, ids: TokenIds) -> str:
    fields = Fields(body)
    numbers = fields.require("tokens")
    if not isinstance(numbers, list) or not all(isinstance(number, int) for number in numbers):
        fields.refuse("tokens", "list_type", "Input should be a valid list", numbers)
    fields.close()
    check_model(fields, served)
    return "".join(ids.decode(number) for number in numbers)

"""Request bodies of Messages and Responses. As in vLLM they become chats."""

from typing import Any

from msgspec import structs

from workers.engines.fake.calls import GenerationCall, read_chat
from workers.engines.fake.errors import APIError, for_messages
from workers.engines.fake.fields import Fields
from workers.engines.fake.messages import read_messages
from workers.engines.fake.served import Served
from workers.engines.fake.shapes import encode
from workers.engines.fake.words import chat_tokens

_SHARED = ("model", "stream", "temperature", "top_p", "priority", "ignore_eos", "seed")


def read_message_call(body: dict[str, Any], served: Served, priority: str | None) -> GenerationCall:
    """Missing fields are refused in OpenAI's shape, as vLLM does it; all else in Anthropic's."""
    fields = Fields(body)
    read_messages(fields)
    fields.require("max_tokens")
    fields.close()
    chat = _shared(body) | {"messages": _with_system(body), "max_tokens": body["max_tokens"]}
    chat["stop"] = body.get("stop_sequences")
    try:
        return structs.replace(read_chat(chat, served, priority), api="messages")
    except APIError as error:
        raise for_messages(error) from error


def read_response_call(body: dict[str, Any], served: Served, priority: str | None) -> GenerationCall:
    fields = Fields(body)
    given = fields.require("input")
    limit = fields.integer("max_output_tokens")
    instructions = fields.text("instructions")
    if not isinstance(given, str | list):
        fields.refuse("input", "string_type", "Input should be a valid string", given)
    fields.close()
    messages = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if instructions is not None:
        messages = [{"role": "system", "content": instructions}, *messages]
    call = read_chat(_shared(body) | {"messages": messages, "max_tokens": limit}, served, priority)
    metadata = body.get("metadata")
    encode(metadata)  # it stands in the answer: what cannot is refused now
    return structs.replace(call, api="responses", instructions=instructions, metadata=metadata)


def count_message_tokens(body: dict[str, Any]) -> int:
    fields = Fields({"messages": _with_system(body)} if "messages" in body else body)
    messages = read_messages(fields)
    fields.close()
    return len(chat_tokens(messages))


def _shared(body: dict[str, Any]) -> dict[str, Any]:
    return {name: body[name] for name in _SHARED if name in body}


def _with_system(body: dict[str, Any]) -> Any:
    system, messages = body.get("system"), body.get("messages")
    if system is None or not isinstance(messages, list):
        return messages
    return [{"role": "system", "content": system}, *messages]

"""A request of Messages or Responses as the chat that vLLM makes of it, where that is certain."""

from collections.abc import Mapping
from typing import Any

# What of each API becomes which field of a chat; what has no name there is said otherwise, or changes nothing.
_OF_MESSAGES: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "stop_sequences": "stop",
    "cache_salt": "cache_salt",
    "model": "model",
    "messages": "",
    "system": "",
    "max_tokens": "",
    "metadata": "",
    "stream": "",
}
_OF_RESPONSES: Mapping[str, str] = {
    "temperature": "temperature",
    "top_p": "top_p",
    "cache_salt": "cache_salt",
    "model": "model",
    "input": "",
    "instructions": "",
    "max_output_tokens": "",
    "metadata": "",
    "stream": "",
    "user": "",
    "safety_identifier": "",
    "prompt_cache_key": "",
    "service_tier": "",
    "store": "",
}
_NEUTRAL: tuple[Any, ...] = (None, [], {}, False)
_ROLES = ("user", "assistant", "system", "developer")
# vLLM leaves out a system prompt that begins so.
_NOT_PASSED_ON = "x-anthropic-billing-header"


def chat_of_message(asked: dict[str, Any]) -> dict[str, Any] | None:
    """None where it has more than texts, or a field whose meaning in a chat is not certain."""
    fields = _renamed(asked, _OF_MESSAGES)
    system, messages = asked.get("system"), asked.get("messages")
    if fields is None or not isinstance(messages, list):
        return None
    begun: list[Any] = []
    if system:
        text = _joined(system)
        if text is None or _NOT_PASSED_ON in text:
            return None
        begun.append({"role": "system", "content": text})
    turns = [_turn(message, "text", ("user", "assistant")) for message in messages]
    return _with(fields, [*begun, *turns])


def chat_of_response(asked: dict[str, Any]) -> dict[str, Any] | None:
    """The same. An input whose last message is begun is left to the engine that knows what that means."""
    fields = _renamed(asked, _OF_RESPONSES)
    given, instructions = asked.get("input"), asked.get("instructions")
    if fields is None:
        return None
    begun: list[Any] = [{"role": "system", "content": instructions}] if instructions else []
    if isinstance(given, str):
        return _with(fields, [*begun, {"role": "user", "content": given}])
    if not isinstance(given, list) or any(isinstance(item, dict) and item.get("status") for item in given):
        return None
    return _with(fields, [*begun, *[_turn(item, "input_text", _ROLES) for item in given]])


def _renamed(asked: dict[str, Any], names: Mapping[str, str]) -> dict[str, Any] | None:
    if any(name not in names and value not in _NEUTRAL for name, value in asked.items()):
        return None
    return {names[name]: value for name, value in asked.items() if names.get(name) and value is not None}


def _with(fields: dict[str, Any], messages: list[Any]) -> dict[str, Any] | None:
    return fields | {"messages": messages} if messages and None not in messages else None


def _turn(message: Any, kind: str, roles: tuple[str, ...]) -> dict[str, str] | None:
    """Of one text. Several parts are put together as the engine's template has it."""
    if not isinstance(message, dict) or message.get("role") not in roles:
        return None
    if message.get("type", "message") != "message":
        return None
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and _is_text(content[0], kind):
        content = content[0]["text"]
    return {"role": message["role"], "content": content} if isinstance(content, str) else None


def _joined(system: Any) -> str | None:
    if isinstance(system, str):
        return system
    if not isinstance(system, list) or not all(_is_text(block, "text") for block in system):
        return None
    return "".join([block["text"] for block in system])


def _is_text(part: Any, kind: str) -> bool:
    return isinstance(part, dict) and part.get("type") == kind and isinstance(part.get("text"), str)

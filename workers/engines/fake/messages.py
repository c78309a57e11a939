"""The messages of a chat."""

from typing import Any

from workers.engines.fake.fields import Fields


def read_messages(fields: Fields) -> list[tuple[str, str]]:
    messages = fields.require("messages")
    if not isinstance(messages, list):
        if messages is not None:
            fields.refuse("messages", "list_type", "Input should be a valid list", messages)
        return []
    return [_read_message(fields, index, message) for index, message in enumerate(messages)]


def _read_message(fields: Fields, index: int, message: Any) -> tuple[str, str]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        fields.refuse(f"messages.{index}.role", "missing", "Field required", message)
        return "", ""
    return message["role"], _content_text(message.get("content"))


def _content_text(content: Any) -> str:
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict)]
        return "\n".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""

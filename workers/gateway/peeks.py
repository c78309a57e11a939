"""What routing and metering read off a body's few fields. Types are the client's: whatever they are, this answers."""

from workers.gateway.bodies import Peek
from workers.gateway.flags import is_true

_MAX_END_USER = 256


def first_text(*values: object) -> str:
    """The first that is a string and not empty; "" if none is."""
    for value in values:
        if value and isinstance(value, str):
            return value
    return ""


def may_be_number(value: object) -> bool:
    """Whether an engine could read one in it; what it cannot read it refuses, and nothing is to be put in its place."""
    if isinstance(value, str):
        return any(character.isdigit() for character in value)
    return not isinstance(value, list | dict)


def wants_stream(found: Peek) -> bool:
    return found.stream is not None and is_true(found.stream)


def end_user_of(found: Peek) -> str:
    """OpenAI's fields, or Anthropic's `metadata.user_id`."""
    if not (found.safety_identifier or found.user or found.metadata):
        return ""
    in_metadata = found.metadata.get("user_id") if isinstance(found.metadata, dict) else None
    return first_text(found.safety_identifier, found.user, in_metadata)[:_MAX_END_USER]


def choices_of(found: Peek) -> int:
    """Of each prompt."""
    choices = found.n
    return choices if isinstance(choices, int) and choices > 0 else 1


def output_limit_of(found: Peek) -> int | None:
    for limit in (found.max_completion_tokens, found.max_tokens, found.max_output_tokens):
        if isinstance(limit, int) and limit >= 0:
            return limit
    return None

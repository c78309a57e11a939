"""What routing and metering read off a body's few fields. Types are the client's: whatever they are, this answers."""

import re

from msgspec import UNSET

from workers.gateway.payload.bodies import NO_TEXT, Peek
from workers.gateway.payload.flags import is_true

_MAX_END_USER = 256
_MAX_NUMBER_LETTERS = 32
_MAX_NUMBER = 2**31
_PAST_64_BITS = 2**63
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9_]+(?:\.[0_]*)?")


def first_text(*values: object) -> str:
    """The first that is a string and not empty; "" if none is."""
    for value in values:
        if value and isinstance(value, str):
            return value
    return ""


def is_refused_as_number(value: object) -> bool:
    """Whether an engine refuses it where a whole number of 64 bits should be, as pydantic does; absent is none."""
    if value is UNSET or isinstance(value, int):
        return value is not UNSET and not -_PAST_64_BITS <= value < _PAST_64_BITS
    if isinstance(value, float):
        return not value.is_integer() or abs(value) >= _PAST_64_BITS
    return not isinstance(value, str) or _WHOLE_NUMBER.fullmatch(value.strip()) is None


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
    return 1 if found.n is None else max(_whole_number(found.n) or 1, 1)


def limit_of_all(found: Peek, limit: int) -> int | None:
    """Of all choices together, where each may have `limit` tokens; how many prompts a list has is not looked into."""
    if found.prompt is not NO_TEXT and bytes(found.prompt).startswith(b"["):
        return None
    return limit if found.n is None else limit * choices_of(found)


def output_limit_of(found: Peek) -> int | None:
    for limit in (found.max_completion_tokens, found.max_tokens, found.max_output_tokens):
        if type(limit) is int and 0 <= limit <= _MAX_NUMBER:
            return limit
        if limit is not None and (number := _whole_number(limit)) is not None and number >= 0:
            return number
    return None


def _whole_number(value: object) -> int | None:
    """As engines read a field that must be one: 3, 3.0 or "3". What no engine could count to is none."""
    if isinstance(value, str) and len(value) > _MAX_NUMBER_LETTERS:
        return None
    try:
        number = float(value) if isinstance(value, int | float | str) else 0.5
    except (ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and abs(number) <= _MAX_NUMBER else None

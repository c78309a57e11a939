"""What routing and metering read off a body's few fields. Types are the client's: whatever they are, this answers."""

import re

import msgspec
from msgspec import UNSET, Raw

from workers.gateway.payload.bodies import NO_TEXT, Peek
from workers.gateway.payload.flags import is_true

_MAX_END_USER = 256
_MAX_NUMBER_LETTERS = 32
_MAX_NUMBER = 2**31
_MAX_CHOICES = 16384  # vLLM's own bound; it refuses more, as all others do
_MAX_OF_ALL = 2**62
_PAST_64_BITS = 2**63
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9_]+(?:\.[0_]*)?")
_decode_prompts = msgspec.json.Decoder(list[Raw]).decode


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
    choices = None if found.n is None else _whole_number(found.n)
    return choices if choices is not None and 1 <= choices <= _MAX_CHOICES else 1


def prompts_of(found: Peek) -> int:
    """A list of texts or of lists of tokens is so many prompts, a list of tokens is one."""
    if found.prompt is NO_TEXT or not (written := bytes(found.prompt)).startswith(b"["):
        return 1
    if not written[1:].lstrip().startswith((b'"', b"[")):
        return 1
    try:
        return len(_decode_prompts(written))
    except msgspec.DecodeError:
        return 1


def limit_of_all(found: Peek, limit: int) -> int:
    """Of all choices of all prompts together, where each may have `limit` tokens."""
    if found.n is None and found.prompt is NO_TEXT:
        return limit
    return min(limit * choices_of(found) * prompts_of(found), _MAX_OF_ALL)


def output_limit_of(found: Peek, fields: tuple[str, ...]) -> int | None:
    """Of one choice: what the first of the path's fields says that says any. llama.cpp has one of its own besides."""
    limit = None
    for name in fields:
        limit = _limit_in(found, name)
        if limit is not None:
            break
    if found.n_predict is None:
        return limit
    own = _limit_in(found, "n_predict")
    return None if own is None else max(own, limit or 0)


def _limit_in(found: Peek, name: str) -> int | None:
    limit: object = getattr(found, name)
    if type(limit) is int and 0 <= limit <= _MAX_NUMBER:
        return limit
    number = None if limit is None else _whole_number(limit)
    return number if number is not None and number >= 0 else None


def _whole_number(value: object) -> int | None:
    """As engines read a field that must be one: 3, 3.0 or "3". What no engine could count to is none."""
    if isinstance(value, str) and len(value) > _MAX_NUMBER_LETTERS:
        return None
    try:
        number = float(value) if isinstance(value, int | float | str) else 0.5
    except (ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() and abs(number) <= _MAX_NUMBER else None

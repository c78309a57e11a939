"""Where things stand in the events that vLLM and llama.cpp write: found by their bytes, without decoding."""

import re

ERROR = b'data: {"error"'
DONE = (b"data: [DONE]", b"data:[DONE]")
FINISH = b'"finish_reason":"'
USAGE_KEY = b',"usage":{'
FINGERPRINT_KEY = b',"system_fingerprint":'
_CHOICES = b'"choices":['
_USAGE, _NO_USAGE = b'"usage"', b',"usage":null'
_CHOICE_INDEX = re.compile(rb'"index":(\d+)')
_FIRST_CHOICE = b'"choices":[{"index":0,'
_ROLE_DELTA = b'"delta":{"role":'
_WITHOUT_OUTPUT = b'"delta":{}}]}'
_OPENING = re.compile(rb'"delta":\{"role":"assistant"(?:,"content":(?:""|null))?\}')
_ENGINE_FAILURE = re.compile(rb'"code": ?5\d\d')


def is_loose(event: bytes) -> bool:
    """Whether what is searched for in an event cannot be found in this one, though it may be there."""
    if _CHOICES not in event:
        return not event.startswith(ERROR)
    return _USAGE in event and USAGE_KEY not in event and _NO_USAGE not in event


def brings_output(event: bytes) -> bool:
    return not event.endswith(_WITHOUT_OUTPUT) and _ROLE_DELTA not in event


def says_nothing(event: bytes) -> bool:
    """Whether it only opens or closes the answer."""
    return event.endswith(_WITHOUT_OUTPUT) or _OPENING.search(event) is not None


def is_engine_failure(error: bytes) -> bool:
    """Whether the engine is to blame for it, and not the request."""
    return _ENGINE_FAILURE.search(error) is not None


def choice_index(event: bytes) -> bytes:
    if _FIRST_CHOICE in event:
        return b"0"
    found = _CHOICE_INDEX.search(event)
    return found[1] if found else b"0"


def end_of_object(event: bytes, start: int) -> int:
    """Index after the brace that closes the one at `start`; usage objects hold no strings with braces.

    -1 stands for a brace just before `event`.
    """
    depth, position = (0, start) if start >= 0 else (1, 0)
    while True:
        close = event.find(b"}", position)
        if close < 0:
            return len(event)
        depth += event.count(b"{", position, close) - 1
        position = close + 1
        if depth <= 0:
            return position


def fingerprint_of(event: bytes) -> bytes:
    at = event.rfind(FINGERPRINT_KEY + b'"')
    if at < 0:
        return b""
    start = at + len(FINGERPRINT_KEY)
    return event[start : event.index(b'"', start + 1) + 1]


def stamped(event: bytes, fingerprint: bytes | None) -> bytes:
    """With the engine's fingerprint, if it is one that finishes a choice and has none."""
    if not fingerprint or FINISH not in event or FINGERPRINT_KEY in event:
        return event
    return event[:-1] + FINGERPRINT_KEY + fingerprint + b"}"

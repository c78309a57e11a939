"""ETag, If-Match and If-None-Match (RFC 9110). Pure.

A tag is `"<what people set>.<all of it>"`, both hashes. If-Match compares the first half: that a node was heard of
since is no reason to refuse a change. If-None-Match compares the whole, so that a 304 never hides anything.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

ANY = "*"
_DIGITS = 16
_TAG = re.compile(r'(?:W/)?"([!#-~\x80-\xff]*)"')


def tag_of(content: Any, reported: Iterable[str] = ()) -> str:
    """`content` as JSON would have it; `reported` are names of fields that nobody sets."""
    left_out = set(reported)
    is_object = isinstance(content, Mapping)
    set_by_people = {name: value for name, value in content.items() if name not in left_out} if is_object else content
    return f'"{_digest(set_by_people)}.{_digest(content)}"'


def matches(header: str, current: str) -> bool:
    """Whether an If-Match lets a change through. `current` is "" for what does not exist."""
    if header.strip() == ANY:
        return bool(current)
    return bool(current) and _first_half(current.strip('"')) in {_first_half(tag) for tag in _TAG.findall(header)}


def is_unchanged(header: str, current: str) -> bool:
    """Whether an If-None-Match is answered by 304. What is sent without a tag (a file, say) never is."""
    return bool(current) and (header.strip() == ANY or current.strip('"') in _TAG.findall(header))


def _first_half(tag: str) -> str:
    return tag.partition(".")[0]


def _digest(content: Any) -> str:
    return hashlib.sha256(msgspec.json.encode(content, order="sorted", enc_hook=str)).hexdigest()[:_DIGITS]

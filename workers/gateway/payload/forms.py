"""Multipart forms, as far as routing needs them: one field is found or set, and no part is copied."""

import re
from typing import Any

from msgspec import Struct

from workers.gateway.errors import bad_request
from workers.gateway.payload.bodies import TEXT_FIELDS, Peek

_BOUNDARY = re.compile(rb'boundary="?([^";,\s]{1,200})"?', re.IGNORECASE)
_NAME = re.compile(rb'content-disposition:[^\r\n]*?[;\s]name="?([^";\r\n]*)"?', re.IGNORECASE)
_FILENAME = re.compile(rb'content-disposition:[^\r\n]*?[;\s]filename="?([^";\r\n]*)"?', re.IGNORECASE)
MAX_PARTS = 64
MAX_PART_HEAD_BYTES = 4096
MAX_VALUE_BYTES = 1024


def peek_form(body: bytes, content_type: bytes) -> Peek:
    """Raises a 400 that says what is wrong when there is no one model in it."""
    fields = _find_fields(body, content_type)
    short = {name: span for name, span in fields.items() if 0 < span.stop - span.start <= MAX_VALUE_BYTES}
    if "model" not in short:
        raise bad_request("missing_model", "You must provide a model, as a field of the form.", "model")
    texts: dict[str, Any] = {name: body[span].decode("utf-8", "replace") for name, span in short.items()}
    return Peek(**{name: text for name, text in texts.items() if name in TEXT_FIELDS})


def with_form_model(body: bytes, content_type: bytes, name: str) -> bytes:
    span = _find_fields(body, content_type)["model"]
    return body[: span.start] + name.encode() + body[span.stop :]


def boundary_of(content_type: bytes) -> bytes:
    """Raises a 400 when it is not a form's."""
    boundary = _BOUNDARY.search(content_type)
    if boundary is None or not content_type.lower().startswith(b"multipart/form-data"):
        raise bad_request("invalid_form", "The body must be multipart/form-data with a boundary.")
    return boundary[1]


def part_names(head: bytes) -> tuple[str, str]:
    """Its name and the name of its file, of the head of a part; "" of what it does not say."""
    return _found(_NAME, head), _found(_FILENAME, head)


class _Part(Struct, frozen=True):
    """Where its value stands."""

    name: str
    span: slice


def _find_fields(body: bytes, content_type: bytes) -> dict[str, slice]:
    """Where the values stand. A second `model` is refused: parsers differ in which they take."""
    fields: dict[str, slice] = {}
    for part in _parts(body, b"--" + boundary_of(content_type)):
        if part.name == "model" and part.name in fields:
            raise bad_request("invalid_form", "The form has more than one model.", "model")
        fields[part.name] = part.span
    return fields


def _parts(body: bytes, delimiter: bytes) -> list[_Part]:
    parts: list[_Part] = []
    start = 0 if body.startswith(delimiter) else body.find(b"\r\n" + delimiter) + 2
    while len(parts) < MAX_PARTS:
        head_start = start + len(delimiter)
        head_end = body.find(b"\r\n\r\n", head_start, head_start + MAX_PART_HEAD_BYTES)
        end = body.find(b"\r\n" + delimiter, head_end + 2)
        if head_end < 0 or end < 0:
            return parts
        parts.append(_Part(_found(_NAME, body[head_start:head_end]), slice(head_end + 4, end)))
        start = end + 2
    raise bad_request("invalid_form", f"The form has more than {MAX_PARTS} parts.")


def _found(pattern: re.Pattern[bytes], head: bytes) -> str:
    found = pattern.search(head)
    return found[1].decode("utf-8", "replace") if found else ""

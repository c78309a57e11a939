"""What clients send to /v1/files and /v1/batches: read, and refused with the reason."""

import re
from typing import Any, NoReturn
from urllib.parse import parse_qs

import msgspec
from msgspec import Struct

from workers.gateway.batches.lines import ENDPOINTS
from workers.gateway.batches.shapes import COMPLETION_WINDOW
from workers.gateway.errors import bad_request
from workers.gateway.payload.labels import MAX_METADATA, MAX_NAME, MAX_VALUE
from workers.gateway.payload.peeks import first_text

PURPOSE = "batch"
MAX_FILENAME = 255
MIN_LIFETIME_S, MAX_LIFETIME_S = 3600, 30 * 24 * 3600
MAX_LISTED = {"files": 10_000, "batches": 100}
LISTED = {"files": 10_000, "batches": 20}
_UNSAFE = re.compile(r"[\x00-\x1f\x7f/\\]")


class Upload(Struct, frozen=True):
    filename: str
    expires_after_s: int | None


class NewBatch(Struct, frozen=True):
    input_file_id: str
    endpoint: str
    metadata: dict[str, str] | None
    output_expires_after_s: int | None


class Listing(Struct, frozen=True):
    limit: int
    after: str
    purpose: str
    newest_first: bool


def read_upload(filename: str, values: dict[str, str]) -> Upload:
    """Of the fields that came with the file."""
    if values.get("purpose") != PURPOSE:
        _refuse(f"`purpose` must be '{PURPOSE}'.", "purpose")
    after = {"anchor": values.get("expires_after[anchor]"), "seconds": values.get("expires_after[seconds]")}
    lifetime_s = _read_lifetime(after if any(after.values()) else None, "expires_after")
    return Upload(_UNSAFE.sub("_", filename)[:MAX_FILENAME] or "upload.jsonl", lifetime_s)


class _NewBatch(Struct):
    input_file_id: Any = None
    endpoint: Any = None
    completion_window: Any = None
    metadata: Any = None
    output_expires_after: Any = None


_decode_new_batch = msgspec.json.Decoder(_NewBatch).decode


def input_file_of(body: bytes) -> str:
    """Empty where the body does not say: whoever reads it says what is wrong with it."""
    try:
        return first_text(_decode_new_batch(body).input_file_id)
    except (msgspec.DecodeError, RecursionError):
        return ""


def read_new_batch(body: bytes) -> NewBatch:
    try:
        found = _decode_new_batch(body)
    except (msgspec.DecodeError, RecursionError):
        raise bad_request("invalid_json", "The body is not a JSON object.") from None
    if not isinstance(found.input_file_id, str) or not found.input_file_id:
        _refuse("`input_file_id` must be the id of an uploaded file.", "input_file_id")
    if found.endpoint not in ENDPOINTS:
        _refuse(f"`endpoint` must be one of {', '.join(ENDPOINTS)}.", "endpoint")
    if found.completion_window != COMPLETION_WINDOW:
        _refuse(f"`completion_window` must be '{COMPLETION_WINDOW}'.", "completion_window")
    lifetime_s = _read_lifetime(found.output_expires_after, "output_expires_after")
    return NewBatch(found.input_file_id, found.endpoint, _read_metadata(found.metadata), lifetime_s)


def read_listing(query: bytes, kind: str) -> Listing:
    values = {name: given[-1] for name, given in parse_qs(query.decode("utf-8", "replace")).items()}
    limit = values.get("limit", str(LISTED[kind]))
    if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= MAX_LISTED[kind]):
        _refuse(f"`limit` must be a number from 1 to {MAX_LISTED[kind]}.", "limit")
    order = values.get("order", "desc")
    if order not in ("asc", "desc"):
        _refuse("`order` must be 'asc' or 'desc'.", "order")
    return Listing(int(limit), values.get("after", ""), values.get("purpose", ""), order == "desc")


def _read_metadata(given: Any) -> dict[str, str] | None:
    if given is None:
        return None
    is_map = isinstance(given, dict) and len(given) <= MAX_METADATA
    if not is_map or any(not _is_pair(name, value) for name, value in given.items()):
        _refuse(
            f"`metadata` may have {MAX_METADATA} pairs of strings, names up to {MAX_NAME} characters and values up to"
            f" {MAX_VALUE}.",
            "metadata",
        )
    return dict(given)


def _is_pair(name: str, value: Any) -> bool:
    return len(name) <= MAX_NAME and isinstance(value, str) and len(value) <= MAX_VALUE


def _read_lifetime(given: Any, param: str) -> int | None:
    """Of OpenAI's {"anchor": "created_at", "seconds": …}; a form has its numbers as text."""
    if given is None:
        return None
    seconds = given.get("seconds") if isinstance(given, dict) and given.get("anchor") == "created_at" else None
    if isinstance(seconds, str) and seconds.isascii() and seconds.isdigit():
        seconds = int(seconds[:9])
    if not isinstance(seconds, int) or not MIN_LIFETIME_S <= seconds <= MAX_LIFETIME_S:
        _refuse(
            f"`{param}` needs the anchor 'created_at' and {MIN_LIFETIME_S} to {MAX_LIFETIME_S} seconds.",
            param,
        )
    return seconds


def _refuse(message: str, param: str) -> NoReturn:
    raise bad_request("invalid_request", message, param)

"""JSON lines: what is wrong with one of an input file, and how those of output files look."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

import msgspec
from msgspec import Raw, Struct

from workers.gateway.batches.shapes import Item, LineError, Place
from workers.gateway.errors import GatewayError
from workers.gateway.http.requests import MAX_BODY_BYTES
from workers.gateway.payload.bodies import peek
from workers.gateway.payload.peeks import wants_stream

MAX_ITEMS = 50_000
MAX_LINE_BYTES = MAX_BODY_BYTES
MAX_ERRORS_SHOWN = 100
MAX_CUSTOM_ID = 512
# JSON can say half of a surrogate pair, and nothing can store it.
_CUSTOM_ID = re.compile(rf"[^\ud800-\udfff]{{1,{MAX_CUSTOM_ID}}}")
_READ_AT_ONCE_BYTES = 64 * 1024
ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/rerank", "/v1/score")


class _Line(Struct):
    custom_id: Any = None
    method: Any = None
    url: Any = None
    body: Raw = Raw(b"null")


_LINE_ENDS = [(end.encode(), b"\\u%04x" % ord(end)) for end in "\x85\u2028\u2029"]
_decode_line = msgspec.json.Decoder(_Line).decode


class _WrongLineError(Exception):
    def __init__(self, code: str, message: str, param: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param


class InputCheck:
    """Fed with lines; `places` are the good ones, `errors` what is wrong with the others. Blank lines are neither."""

    def __init__(self, endpoint: str, may_use: Callable[[str], bool]) -> None:
        self._endpoint = endpoint
        self._may_use = may_use
        self._custom_ids: set[str] = set()
        self._line_number = 0
        self._start = 0
        self._is_cut = False
        self.places: list[Place] = []
        self.errors: list[LineError] = []

    @property
    def is_over(self) -> bool:
        """Whether more lines would change nothing."""
        return self._is_cut or len(self.errors) >= MAX_ERRORS_SHOWN or len(self.places) > MAX_ITEMS

    def check_all(self, lines: Iterable[bytes]) -> None:
        for line in lines:
            if self.is_over:
                return
            self._line_number += 1
            if line.strip():
                self._check(line.removesuffix(b"\n"))
            self._start += len(line)

    def _check(self, line: bytes) -> None:
        try:
            custom_id = self._read(line)
        except _WrongLineError as error:
            self.errors.append(LineError(error.code, error.message, error.param, self._line_number))
            return
        self._custom_ids.add(custom_id)
        self.places.append(Place(len(self.places), custom_id, self._start, len(line)))

    def finish(self) -> None:
        """What only the whole file shows."""
        if not self.places and not self.errors:
            self.errors.append(LineError("empty_file", "The input file has no requests."))
        elif len(self.places) > MAX_ITEMS:
            self.errors.append(LineError("too_many_tasks", f"A batch may have {MAX_ITEMS} requests."))

    def _read(self, line: bytes) -> str:
        """The line's custom_id."""
        if len(line) > MAX_LINE_BYTES:
            self._is_cut = True
            raise _WrongLineError("line_too_long", f"A line may have at most {MAX_LINE_BYTES} bytes.")
        found = _read_line(line)
        custom_id = found.custom_id
        if not isinstance(custom_id, str) or not _CUSTOM_ID.fullmatch(custom_id):
            message = (
                f"`custom_id` must be a string of 1 to {MAX_CUSTOM_ID} characters, none of them half a surrogate pair."
            )
            raise _WrongLineError("missing_required_parameter", message, "custom_id")
        if custom_id in self._custom_ids:
            raise _WrongLineError("duplicate_custom_id", "The custom_id is used by an earlier line.", "custom_id")
        if found.method != "POST":
            raise _WrongLineError("invalid_method", "`method` must be POST.", "method")
        if found.url != self._endpoint:
            raise _WrongLineError("invalid_url", f"`url` must be the batch's endpoint, {self._endpoint}.", "url")
        self._check_body(bytes(found.body))
        return custom_id

    def _check_body(self, body: bytes) -> None:
        try:
            asked = peek(body)
        except GatewayError as error:
            param = f"body.{error.param}" if error.param else "body"
            raise _WrongLineError("invalid_request", error.message, param) from None
        if wants_stream(asked):
            raise _WrongLineError("invalid_request", "Items of a batch cannot be streamed.", "body.stream")
        if not self._may_use(asked.model):
            message = f"The model `{asked.model[:100]}` does not exist or your key may not use it."
            raise _WrongLineError("model_not_found", message, "body.model")


def read_lines(content: BinaryIO) -> list[bytes]:
    """The next of them, with their ends; of one that is longer than any may be only its beginning."""
    lines: list[bytes] = []
    size_bytes = 0
    while size_bytes < _READ_AT_ONCE_BYTES and (line := content.readline(MAX_LINE_BYTES + 1)):
        lines.append(line)
        size_bytes += len(line)
    return lines


def item_at(place: Place, line: bytes) -> Item:
    """Of a line that was found good."""
    return Item(place.number, place.custom_id, bytes(_read_line(line).body))


def answer_line(item_id: str, custom_id: str, *, status: int, request_id: str, body: bytes) -> bytes:
    response = {"status_code": status, "request_id": request_id, "body": _one_line(body)}
    return _line(item_id, custom_id, response=response)


def error_line(item_id: str, custom_id: str, *, code: str, message: str) -> bytes:
    """Of an item that was never answered."""
    return _line(item_id, custom_id, error={"code": code, "message": message})


def _line(item_id: str, custom_id: str, *, response: object = None, error: object = None) -> bytes:
    """What else than a line feed some clients take for an end of the line, httpx and so SDKs among them, is escaped."""
    fields = {"id": item_id, "custom_id": custom_id, "response": response, "error": error}
    line = msgspec.json.encode(fields)
    for end, escaped in _LINE_ENDS:
        line = line.replace(end, escaped)
    return line + b"\n"


def _one_line(body: bytes) -> Raw:
    """JSON has line ends only between its tokens, where a space says the same. What is no JSON becomes a text."""
    try:
        msgspec.json.decode(body, type=Raw)
        return Raw(body.replace(b"\r", b" ").replace(b"\n", b" ").strip())
    except msgspec.DecodeError:
        return Raw(msgspec.json.encode(body.decode("utf-8", "replace")))


def _read_line(line: bytes) -> _Line:
    try:
        return _decode_line(line)
    except msgspec.DecodeError as error:
        return _read_leniently(line, error)
    except RecursionError:
        raise _WrongLineError("invalid_json_line", "The line is nested too deeply.") from None


def _read_leniently(line: bytes, error: msgspec.DecodeError) -> _Line:
    """Engines take some JSON that msgspec does not: what Python's own parser reads is sent as that writes it."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise _WrongLineError("invalid_json_line", f"The line is not valid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise _WrongLineError("invalid_json_line", "The line must be a JSON object.") from None
    body = Raw(json.dumps(fields.pop("body", None)).encode())
    return _Line(**{name: fields.get(name) for name in ("custom_id", "method", "url")}, body=body)

"""Which model a request names, before anything else of it is read; "" of what any process can answer."""

from typing import Any

import msgspec
from msgspec import Struct

from workers.gateway.apis.paths import ENGINE_PATHS, METHOD
from workers.gateway.errors import GatewayError
from workers.gateway.http.requests import HttpRequest
from workers.gateway.payload.bodies import peek
from workers.gateway.payload.forms import peek_form


class _Named(Struct):
    model: Any = None


_decode = msgspec.json.Decoder(_Named).decode


def model_of(request: HttpRequest) -> str:
    """What is no question to an engine, or a malformed one, names none: it is refused wherever it is."""
    path = ENGINE_PATHS.get(request.path)
    if path is None or request.method != METHOD:
        return ""
    return _model_in_form(request) if path.is_form else model_in(request.body)


def model_in(body: bytes) -> str:
    try:
        model = _decode(body).model
    except (msgspec.DecodeError, RecursionError):
        model = _model_in_odd(body)
    return model if isinstance(model, str) else ""


def _model_in_odd(body: bytes) -> Any:
    """Of what only Python's own parser takes, too."""
    try:
        return peek(body).model
    except GatewayError:
        return ""


def _model_in_form(request: HttpRequest) -> str:
    try:
        model: str = peek_form(request.body, request.header(b"content-type")).model
    except GatewayError:
        return ""
    return model

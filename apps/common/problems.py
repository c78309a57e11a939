"""Every error of the REST API as problem+json (RFC 9457), with a stable `code` and the `fields` at fault."""

import logging
from collections.abc import Iterator
from typing import Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import DataError
from django.db import Error as DatabaseError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from apps.common.errors import DomainError
from apps.common.saving import GONE, says_it_is_gone

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"


def render_problem(error: Exception, context: dict[str, Any]) -> Response | None:  # noqa: ARG001 - DRF's signature
    if isinstance(error, DomainError):
        return problem(error.status, error.code, error.message, error.fields)
    if isinstance(error, exceptions.APIException):
        return _of_rest_framework(error)
    if isinstance(error, (Http404, ObjectDoesNotExist)):
        return problem(404, "not_found", "no such thing")
    if isinstance(error, ValidationError):
        return problem(400, "invalid_input", "; ".join(error.messages))
    return _of_database(error) if isinstance(error, DatabaseError) else None


def _of_database(error: DatabaseError) -> Response:
    if isinstance(error, DataError):
        return problem(400, "invalid_input", "a value is out of range")
    if says_it_is_gone(error):
        return problem(404, "not_found", GONE)
    log.error("the database failed a request", exc_info=error)
    return problem(503, "unavailable", "the database is not available; try again")


def _of_rest_framework(error: exceptions.APIException) -> Response:
    if isinstance(error, exceptions.ValidationError):
        if set(_codes_of(error.get_codes())) == {"unique"}:
            return problem(409, "conflict", "there is one already", flattened(error.detail))
        return problem(400, "invalid_input", "the input is not valid", flattened(error.detail))
    return _with_headers(problem(error.status_code, str(error.default_code), str(error.detail)), error)


def _codes_of(codes: Any) -> Iterator[str]:
    if isinstance(codes, dict | list):
        for part in codes.values() if isinstance(codes, dict) else codes:
            yield from _codes_of(part)
    else:
        yield str(codes)


def problem(status: int, code: str, detail: str, fields: dict[str, str] | None = None) -> Response:
    return Response(content_of(status, code, detail, fields), status=status, content_type=CONTENT_TYPE)


def content_of(status: int, code: str, detail: str, fields: dict[str, str] | None = None) -> dict[str, Any]:
    named = {"type": f"urn:tokenyard:problem:{code}", "title": code.replace("_", " "), "status": status, "code": code}
    return named | {"detail": detail, "fields": fields or {}}


def _with_headers(response: Response, error: exceptions.APIException) -> Response:
    if header := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = header
    if wait_s := getattr(error, "wait", None):
        response["Retry-After"] = str(int(wait_s))
    return response


def flattened(detail: Any, path: str = "") -> dict[str, str]:
    if isinstance(detail, dict):
        pairs = [(f"{path}.{name}" if path else str(name), part) for name, part in detail.items()]
    elif isinstance(detail, list) and any(isinstance(part, (dict, list)) for part in detail):
        pairs = [(f"{path}[{index}]", part) for index, part in enumerate(detail)]
    else:
        parts = detail if isinstance(detail, list) else [detail]
        return {path or "input": " ".join(map(str, parts))} if parts else {}
    return {name: text for inner, part in pairs for name, text in flattened(part, inner).items()}

"""What drf-spectacular does not know of: what apps/rest does around every view, and what bodies must not hold."""

import re
from collections.abc import Iterator
from typing import Any
from zoneinfo import available_timezones

from apps.common.problems import CONTENT_TYPE

_METHODS = ("get", "post", "put", "patch", "delete")
_PROBLEM = {
    "type": "object",
    "description": "RFC 9457. `code` is stable; `fields` says which input is at fault, and why.",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string"},
        "detail": {"type": "string"},
        "fields": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["type", "title", "status", "code", "detail", "fields"],
}
_DRY_RUN = {
    "type": "object",
    "description": "What `?dry_run=1` would have done. `changes` are the audit entries it would have made.",
    "properties": {
        "dry_run": {"const": True},
        "would_answer": {"type": "integer"},
        "before": {"description": "what GET shows now, null where there is nothing to show"},
        "after": {"description": "what would have been answered, without what is shown once"},
        "diff": {
            "type": "array",
            "items": {"type": "object", "properties": {"field": {"type": "string"}, "from": {}, "to": {}}},
        },
        "changes": {"type": "array", "items": {"type": "object"}},
    },
    "required": ["dry_run", "would_answer", "before", "after", "diff", "changes"],
}
# A pattern, for of an enum testers try each value.
_ZONES = "|".join(sorted(available_timezones())).replace("+", r"\+")
_ZONE = {"type": "string", "description": "An IANA time zone.", "pattern": f"^({_ZONES})$"}
_NAMES_OF_ZONES = ("zone", "time_zone")
_OF_ZONES = {"$ref": "#/components/schemas/Zone"}
_RESPONSES = {"4XX": "What was asked is refused.", "5XX": "It failed, or cannot be answered now."}
_WITHOUT_NUL = r"^[^\x00]*$"
_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
_MOMENT = r"^2\d{3}-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\dZ$"
_DECIMAL = re.compile(r"\^-\?\\d\{0,(\d+)\}\(\?:\\\.\\d\{0,(\d+)\}\)\?\$")


def document_conventions(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A postprocessing hook of drf-spectacular."""
    schemas = result["components"]["schemas"]
    schemas["Problem"], schemas["DryRun"], schemas["Zone"] = _PROBLEM, _DRY_RUN, _ZONE
    for method, operation in _operations(result):
        _document_problems(operation)
        _document_query(operation)
        if method == "get":
            operation["responses"].setdefault("304", {"description": "It still has the ETag of If-None-Match."})
        elif any(each.get("name") == "dry_run" for each in operation.get("parameters", ())):
            _document_dry_run(operation["responses"])
        for name in _bodies_of(operation):
            _tighten_body(schemas[name])
    return result


def _operations(result: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for methods in result["paths"].values():
        yield from ((method, methods[method]) for method in _METHODS if method in methods)


def _document_problems(operation: dict[str, Any]) -> None:
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for status, description in _RESPONSES.items():
        operation["responses"].setdefault(status, {"description": description, "content": content})


def _document_query(operation: dict[str, Any]) -> None:
    """An empty text asks for nothing. What is given by pattern or format is left out, or is one."""
    for each in operation.get("parameters", ()):
        schema = each["schema"]
        if each["name"] == "zone" and "pattern" not in schema:
            each["schema"] = _OF_ZONES
        elif each["in"] == "query" and not {"format", "pattern", "enum", "$ref"} & set(schema):
            schema.pop("minLength", None)


def _document_dry_run(responses: dict[str, Any]) -> None:
    done = responses.setdefault("200", {"description": "A dry run."})
    content = done.setdefault("content", {}).setdefault("application/json", {})
    dry_run = {"$ref": "#/components/schemas/DryRun"}
    content["schema"] = {"anyOf": [content["schema"], dry_run]} if "schema" in content else dry_run


def _bodies_of(operation: dict[str, Any]) -> Iterator[str]:
    for content in operation.get("requestBody", {}).get("content", {}).values():
        if reference := content.get("schema", {}).get("$ref"):
            yield reference.rpartition("/")[2]


def _tighten_body(schema: dict[str, Any]) -> None:
    """A misspelt field is refused, and so is a NUL character, which Postgres could not store."""
    if "properties" in schema:
        schema["additionalProperties"] = False
    for name, each in schema.get("properties", {}).items():
        if name in _NAMES_OF_ZONES:
            schema["properties"][name] = _OF_ZONES
        else:
            _tighten(each)


def _tighten(schema: dict[str, Any]) -> None:
    kinds = schema.get("type")
    if kinds == "string" or (isinstance(kinds, list) and "string" in kinds):
        _tighten_text(schema, is_nullable=isinstance(kinds, list))
    for each in (schema.get("items"), schema.get("additionalProperties"), *schema.get("properties", {}).values()):
        if isinstance(each, dict):
            _tighten(each)


def _tighten_text(schema: dict[str, Any], *, is_nullable: bool) -> None:
    """Readers of the schema differ in whether they look at `format` beside a null."""
    decimal = _DECIMAL.fullmatch(schema.get("pattern", ""))
    if decimal:
        schema["pattern"] = rf"^\d{{1,{decimal[1]}}}(\.\d{{1,{decimal[2]}}})?$"
    elif schema.get("format") == "uuid" and is_nullable:
        schema["pattern"] = _UUID
    elif schema.get("format") == "date-time":
        schema.setdefault("examples", ["2026-11-29T12:00:00Z"])
        if is_nullable:
            schema["pattern"] = _MOMENT
    elif not {"format", "pattern", "enum"} & set(schema):
        schema["pattern"] = _WITHOUT_NUL

"""What drf-spectacular does not know of: that every error is a problem."""

from typing import Any

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
_RESPONSES = {"4XX": "What was asked is refused.", "5XX": "It failed, or cannot be answered now."}


def document_problems(result: dict[str, Any], **_: Any) -> dict[str, Any]:
    """A postprocessing hook of drf-spectacular."""
    result["components"]["schemas"]["Problem"] = _PROBLEM
    content = {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for methods in result["paths"].values():
        for operation in (methods[method] for method in _METHODS if method in methods):
            for status, description in _RESPONSES.items():
                operation["responses"].setdefault(status, {"description": description, "content": content})
    return result

"""What the conventions add to each operation of the OpenAPI document."""

import re
from typing import Any

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from apps.rest.conventions.listing import LONGEST_TEXT, Filter, filters_of
from apps.rest.conventions.views import WRITE_METHODS, ConventionalView

_HEX = "[0-9a-fA-F]"
_UUID = rf"{_HEX}{{8}}(-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"
_INTEGER = r"-?\d{1,18}"
_LABEL = r"[a-z0-9./_-]+=[^,\x00]*"
_TYPES: dict[str, dict[str, Any]] = {
    "boolean": {"type": "boolean"},
    "date-time": {"type": "string", "format": "date-time"},
    "uuid": {"type": "string", "pattern": f"^{_UUID}(,{_UUID})*$"},
    "integer": {"type": "string", "pattern": f"^{_INTEGER}(,{_INTEGER})*$"},
    "labels": {"type": "string", "pattern": f"^{_LABEL}(,{_LABEL})*$"},
    "text": {"type": "string", "maxLength": LONGEST_TEXT, "pattern": r"^[^\x00]*$"},
}
_HINTS = {
    "labels": "All of these: name=value, several with commas.",
    "text": "Any of these, several with commas.",
    "integer": "Any of these, several with commas.",
    "uuid": "Any of these ids, several with commas.",
}


class ConventionalSchema(AutoSchema):
    def get_override_parameters(self) -> list[Any]:
        given = list(super().get_override_parameters())
        if not isinstance(self.view, ConventionalView):
            return given
        return given + (_OF_WRITES if self.method in WRITE_METHODS else self._of_reads(self.view))

    def _of_reads(self, view: ConventionalView) -> list[OpenApiParameter]:
        found = [_header("If-None-Match", {"type": "string"}, "304 when it still has this ETag.")]
        if view.has_own_filters or not self._is_list_view():
            return found
        shown: Any = self.get_response_serializers()
        return found + [_of_filter(each) for each in filters_of(type(getattr(shown, "child", shown))).values()]


def _of_filter(asked: Filter) -> OpenApiParameter:
    schema = _TYPES[asked.kind]
    if asked.choices:
        one = "|".join(map(re.escape, asked.choices))
        schema = {"type": "string", "pattern": f"^({one})(,({one}))*$"}
    return _query(asked.name, schema, _HINTS.get(asked.kind, "") + _choices(asked))


def _choices(asked: Filter) -> str:
    return f" One of: {', '.join(asked.choices)}." if asked.choices else ""


def _query(name: str, schema: dict[str, Any], description: str) -> OpenApiParameter:
    return OpenApiParameter(name, schema, OpenApiParameter.QUERY, description=description)


def _header(name: str, schema: dict[str, Any], description: str) -> OpenApiParameter:
    return OpenApiParameter(name, schema, OpenApiParameter.HEADER, description=description)


# If-Match and Idempotency-Key stand in the description: a value made up for them would be refused, and rightly.
_OF_WRITES = [_query("dry_run", {"type": "boolean"}, "Checks everything, says what would change, changes nothing.")]

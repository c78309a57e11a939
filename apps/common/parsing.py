from collections.abc import Mapping
from typing import IO, Any

import msgspec
from rest_framework.exceptions import ParseError
from rest_framework.parsers import BaseParser
from rest_framework.serializers import Serializer


class StrictJSONParser(BaseParser):
    """Refuses what Postgres or a gateway could not take: NaN, infinities, lone surrogates, NUL characters."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,  # noqa: ARG002 - DRF's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> Any:
        try:
            content = msgspec.json.decode(stream.read())
            msgspec.json.encode(content).decode()
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ParseError(f"not JSON: {error}") from error
        if _has_nul(content):
            raise ParseError("a text holds a NUL character")
        return content


def _has_nul(content: Any) -> bool:
    if isinstance(content, dict):
        return any(_has_nul(part) for pair in content.items() for part in pair)
    if isinstance(content, list):
        return any(_has_nul(part) for part in content)
    return isinstance(content, str) and "\x00" in content


def parsed(serializer: type[Serializer[Any]], content: Any) -> dict[str, Any]:
    """The checked input; raises DRF's ValidationError, which becomes a problem with `fields`."""
    checked = serializer(data=content)
    checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)

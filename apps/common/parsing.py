from collections.abc import Mapping
from typing import IO, Any

import msgspec
from django.http import QueryDict
from rest_framework.exceptions import APIException, ParseError, ValidationError
from rest_framework.parsers import BaseParser
from rest_framework.serializers import Serializer

BIGGEST_BODY_BYTES = 16 * 2**20  # the weight index of a big mixture of experts takes 9


class TooBigError(APIException):
    status_code = 413
    default_code = "too_big"
    default_detail = f"a body has at most {BIGGEST_BODY_BYTES} bytes"


class StrictJSONParser(BaseParser):
    """Refuses what Postgres or a gateway could not take: NaN, infinities, lone surrogates, NUL characters."""

    media_type = "application/json"

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,  # noqa: ARG002 - DRF's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> Any:
        body = stream.read(BIGGEST_BODY_BYTES + 1)
        if len(body) > BIGGEST_BODY_BYTES:
            raise TooBigError
        try:
            content = msgspec.json.decode(body)
            msgspec.json.encode(content).decode()
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ParseError(f"not JSON: {error}") from error
        refuse_nul(content)
        return content


def refuse_nul(content: Any) -> None:
    if _has_nul(content):
        raise ParseError("a text holds a NUL character")


def _has_nul(content: Any) -> bool:
    if isinstance(content, dict):
        return any(_has_nul(part) for pair in content.items() for part in pair)
    if isinstance(content, list):
        return any(_has_nul(part) for part in content)
    return isinstance(content, str) and "\x00" in content


def parsed(serializer: type[Serializer[Any]], content: Any) -> dict[str, Any]:
    """The checked input; raises DRF's ValidationError, which becomes a problem with `fields`."""
    checked = serializer(data=content)
    _refuse_unknown(checked, content)
    checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)


def _refuse_unknown(checked: Serializer[Any], content: Any) -> None:
    """A body's misspelt restriction must not be taken for none. Unknown words in an address do no harm."""
    if not isinstance(content, dict) or isinstance(content, QueryDict):
        return
    if unknown := [str(name) for name in content if name not in checked.fields]:
        raise ValidationError(dict.fromkeys(unknown, "there is no such field"))

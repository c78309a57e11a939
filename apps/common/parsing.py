from collections.abc import Mapping
from typing import IO, Any, ClassVar

import msgspec
from django.http import QueryDict
from rest_framework.exceptions import APIException, ParseError, ValidationError
from rest_framework.parsers import BaseParser
from rest_framework.serializers import Serializer

BIGGEST_BODY_BYTES = 16 * 2**20  # the weight index of a big mixture of experts takes 9


class TooBigError(APIException):
    status_code = 413
    default_code = "too_big"


class StrictParser(BaseParser):
    """Refuses what is too big, and NUL characters, which Postgres could not take. `decode` raises ParseError."""

    what: ClassVar[str]
    biggest_bytes: ClassVar[int]

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,  # noqa: ARG002 - DRF's signature
        parser_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> Any:
        body = stream.read(self.biggest_bytes + 1)
        if len(body) > self.biggest_bytes:
            raise TooBigError(f"{self.what} has at most {self.biggest_bytes} bytes")
        content = self.decode(body)
        _refuse_nul(content)
        return content

    @staticmethod
    def decode(body: bytes) -> Any:
        raise NotImplementedError


class StrictJSONParser(StrictParser):
    """Refuses also what a gateway could not take: NaN, infinities, lone surrogates."""

    media_type = "application/json"
    what = "a body"
    biggest_bytes = BIGGEST_BODY_BYTES

    @staticmethod
    def decode(body: bytes) -> Any:
        try:
            content = msgspec.json.decode(body)
            msgspec.json.encode(content).decode()
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise ParseError(f"not JSON: {error}") from error
        return content


def _refuse_nul(content: Any) -> None:
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

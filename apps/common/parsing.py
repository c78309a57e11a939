import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import IO, Any, ClassVar

import msgspec
from django.http import QueryDict
from rest_framework import fields
from rest_framework.exceptions import APIException, ParseError, ValidationError
from rest_framework.parsers import BaseParser
from rest_framework.serializers import ListSerializer, Serializer

NO_FILTERS = frozenset({"cursor", "page_size", "watch", "resource_version", "dry_run"})
BIGGEST_BODY_BYTES = 16 * 2**20  # the weight index of a big mixture of experts takes 9
DEEPEST = 64  # levels; what walks a body after this may do so by recursion


class TooBigError(APIException):
    status_code = 413
    default_code = "too_big"


class StrictParser(BaseParser):
    """Refuses what is too big or too deep, and NUL characters, which Postgres could not take.

    `decode` raises ParseError.
    """

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
        _refuse_nul_and_depth(content)
        return content

    @staticmethod
    def decode(body: bytes) -> Any:
        raise NotImplementedError


class StrictJSONParser(StrictParser):
    """Refuses also what a gateway could not take (NaN, infinities, lone surrogates), and a name given twice."""

    media_type = "application/json"
    what = "a body"
    biggest_bytes = BIGGEST_BODY_BYTES

    @staticmethod
    def decode(body: bytes) -> Any:
        try:
            content = msgspec.json.decode(body)
            msgspec.json.encode(content).decode()
            json.loads(body, object_pairs_hook=_each_once)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise ParseError(f"not JSON: {error}") from error
        return content


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Which of two was meant nobody can say; a proxy that looked at the other has been got round."""
    names = dict(pairs)
    if len(names) < len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"{counts.most_common(1)[0][0]!r} is given twice")
    return names


def _refuse_nul_and_depth(content: Any) -> None:
    """Level by level: what is too deep would be too deep for a recursion, too."""
    level = [content]
    for _ in range(DEEPEST):
        if any(isinstance(each, str) and "\x00" in each for each in level):
            raise ParseError("a text holds a NUL character")
        level = [part for each in level for part in _parts(each)]
        if not level:
            return
    raise ParseError(f"nested more than {DEEPEST} levels deep")


def _parts(content: Any) -> list[Any]:
    if isinstance(content, dict):
        return [*content, *content.values()]
    return content if isinstance(content, list) else []


def parsed(serializer: type[Serializer[Any]], content: Any) -> dict[str, Any]:
    """The checked input; raises DRF's ValidationError, which becomes a problem with `fields`."""
    checked = serializer(data=content)
    if isinstance(content, QueryDict):
        _refuse_unknown(checked, content, NO_FILTERS)
        _refuse_empty(checked, content)
    elif isinstance(content, dict):
        _refuse_unknown(checked, content)
        _refuse_other_kinds(checked, content)
    checked.is_valid(raise_exception=True)
    return dict(checked.validated_data)


def _refuse_empty(checked: Serializer[Any], query: QueryDict) -> None:
    """`?tenant=` of a script whose variable was empty is not everybody. An empty text is as good as none."""
    asked = {name: field for name, field in checked.fields.items() if query.get(name) == ""}
    if empty := [name for name, field in asked.items() if type(field) is not fields.CharField]:
        raise ValidationError(dict.fromkeys(empty, "is empty; leave it out"))


def _refuse_unknown(
    checked: Serializer[Any], content: dict[str, Any] | QueryDict, others: frozenset[str] = frozenset()
) -> None:
    """A misspelt restriction must not be taken for none."""
    if unknown := [str(name) for name in content if name not in checked.fields and name not in others]:
        raise ValidationError(dict.fromkeys(unknown, "there is no such field"))


_KINDS: tuple[tuple[type[fields.Field[Any, Any, Any, Any]], tuple[type, ...], str], ...] = (
    (fields.BooleanField, (bool,), "is true or false"),
    (fields.IntegerField, (int,), "is a whole number"),
    (fields.CharField, (str,), "is a text"),
    (fields.UUIDField, (str,), "is a text"),
)


def _refuse_other_kinds(checked: Serializer[Any], content: dict[str, Any]) -> None:
    """JSON has kinds: a name that came as a number, or a flag as a text, is somebody's mistake."""
    wrong = dict(_other_kinds(checked, content, ""))
    if wrong:
        raise ValidationError(wrong)


def _other_kinds(field: Any, value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(field, ListSerializer | fields.ListField) and isinstance(value, list):
        for index, part in enumerate(value):
            yield from _other_kinds(field.child, part, f"{path}[{index}]")
    elif isinstance(field, fields.DictField) and isinstance(value, dict):
        for name, part in value.items():
            yield from _other_kinds(field.child, part, f"{path}.{name}")
    elif isinstance(field, Serializer) and isinstance(value, dict):
        for name in value.keys() & field.fields.keys():
            yield from _other_kinds(field.fields[name], value[name], f"{path}.{name}" if path else name)
    elif value is not None and (words := _kind_problem(field, value)):
        yield path, words


def _kind_problem(field: Any, value: Any) -> str:
    for kind, types, words in _KINDS:
        if isinstance(field, kind):
            is_one = isinstance(value, types) and not (isinstance(value, bool) and bool not in types)
            return "" if is_one or (int in types and isinstance(value, float) and value.is_integer()) else words
    return ""

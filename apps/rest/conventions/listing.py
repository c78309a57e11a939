"""Filters of every list, taken from what its serializer shows: a field that is a column can be asked for by its value.

`state=ready,degraded` is either; `labels=zone=a,tier=b` is both; a time has `…_since` and `…_until`. What is found by
more than its column, the serializer's `Meta.found_by` says: by the field's name, a condition for the values.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import models
from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime
from rest_framework.serializers import BaseSerializer, ModelSerializer

from apps.common.errors import InvalidInputError
from apps.common.parsing import NO_FILTERS

Column = Any  # Django's Field is generic to mypy only
MOST_VALUES = 200
LONGEST_TEXT = 500
_BIGGEST_INTEGER = 2**63 - 1


@dataclass(frozen=True)
class Filter:
    """`kind` is the type in the words of OpenAPI; `read` raises ValueError."""

    name: str
    lookup: str
    kind: str
    read: Callable[[str], Any]
    choices: tuple[str, ...] = ()


def filters_of(serializer: type[BaseSerializer[Any]]) -> dict[str, Filter]:
    if not issubclass(serializer, ModelSerializer):
        return {}
    model = serializer.Meta.model
    found = (
        each for name, field in serializer().fields.items() for each in _filters(model, name, field.source or name)
    )
    return {each.name: each for each in found}


def filtered(rows: QuerySet[Any], serializer: type[BaseSerializer[Any]], query: Mapping[str, str]) -> QuerySet[Any]:
    """A misspelt filter must not be taken for none."""
    known = filters_of(serializer)
    asked = {name: text for name, text in query.items() if name not in NO_FILTERS}
    if unknown := sorted(set(asked) - set(known)):
        text = f"there is no such filter; there are: {', '.join(sorted(known)) or 'none'}"
        raise InvalidInputError(text, fields=dict.fromkeys(unknown, "there is no such filter"))
    for name, text in asked.items():
        rows = rows.filter(_condition(serializer, known[name], _value(known[name], text)))
    return rows


def _condition(serializer: type[BaseSerializer[Any]], asked: Filter, value: Any) -> Q:
    found_by: Mapping[str, Callable[[Any], Q]] = getattr(getattr(serializer, "Meta", None), "found_by", {})
    return found_by[asked.name](value) if asked.name in found_by else Q(**{asked.lookup: value})


def _value(asked: Filter, text: str) -> Any:
    try:
        return asked.read(text)
    except ValueError as error:
        message = str(error) or f"is not {asked.kind}"
        raise InvalidInputError(f"{asked.name}: {message}", fields={asked.name: message}) from error


def _filters(model: type[models.Model], name: str, source: str) -> Iterator[Filter]:
    path = source.replace(".", "__")
    column = _column(model, path.split("__"))
    if column is None:
        return
    if isinstance(column, models.DateTimeField):
        yield Filter(f"{name}_since", f"{path}__gte", "date-time", _moment)
        yield Filter(f"{name}_until", f"{path}__lt", "date-time", _moment)
    elif isinstance(column, models.JSONField):
        if name == "labels":
            yield Filter(name, f"{path}__contains", "labels", _labels)
    elif isinstance(column, models.BooleanField):
        yield Filter(name, path, "boolean", _truth)
    elif (each := _reader(column)) is not None:
        choices = tuple(str(value) for value, _ in column.flatchoices)
        yield Filter(name, f"{path}__in", each[0], _several(each[1], choices), choices)


def _column(model: type[models.Model], parts: list[str]) -> Column:
    """Where a dotted source ends, if all of it are columns, and relations to one row each."""
    columns = {name: each for each in model._meta.concrete_fields for name in (each.attname, each.name)}  # noqa: SLF001
    found = columns.get(parts[0])
    if len(parts) == 1 or found is None:
        return found
    return _column(found.related_model, parts[1:]) if isinstance(found, models.ForeignKey) else None


def _reader(column: Column) -> tuple[str, Callable[[str], Any]] | None:
    if isinstance(column, models.UUIDField | models.ForeignKey | models.OneToOneField):
        return "uuid", UUID
    if isinstance(column, models.IntegerField):
        return "integer", _integer
    if isinstance(column, models.CharField):
        return "text", _text
    return None


def _several(read: Callable[[str], Any], choices: tuple[str, ...]) -> Callable[[str], list[Any]]:
    def values(text: str) -> list[Any]:
        parts = text.split(",")
        if len(parts) > MOST_VALUES:
            raise ValueError(f"at most {MOST_VALUES} values")
        if choices and (wrong := [part for part in parts if part not in choices]):
            raise ValueError(f"{wrong[0][:40]!r} is none of {', '.join(choices)}")
        return [read(part) for part in parts]

    return values


def _integer(text: str) -> int:
    value = int(text)
    if abs(value) > _BIGGEST_INTEGER:
        raise ValueError("is too big")
    return value


def _text(text: str) -> str:
    if len(text) > LONGEST_TEXT:
        raise ValueError("is too long")
    return text


def _truth(text: str) -> bool:
    if text.lower() not in {"1", "0", "true", "false"}:
        raise ValueError("is true or false")
    return text.lower() in {"1", "true"}


def _moment(text: str) -> datetime:
    moment = parse_datetime(text.replace(" ", "+"))  # a + of an address is a space
    if moment is None or moment.tzinfo is None:
        raise ValueError("is not a time with its zone, such as 2026-11-29T12:00:00Z")
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is out of range") from error


def _labels(text: str) -> dict[str, str]:
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(name and equals and not name.endswith("!") for name, equals, _ in pairs):
        raise ValueError("is written as name=value, several with commas")
    return {name: value for name, _, value in pairs}

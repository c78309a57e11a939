"""From documents to things that are asked for: every problem of every document is found before anything is done."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rest_framework.exceptions import ValidationError
from rest_framework.validators import UniqueValidator

from apps.common.errors import DomainError, InvalidInputError
from apps.common.problems import flattened
from apps.declarations.policies.documents import MOST_DOCUMENTS
from apps.declarations.services.kinds.catalogue import CATALOGUE, RANKS
from apps.declarations.services.kinds.interface import By, Kind, Spec


@dataclass(frozen=True)
class Asked:
    """Document number `index`: a thing as it should be. `spec` has only what the document says."""

    index: int
    kind: Kind[Any]
    title: str
    spec: Spec

    @property
    def rank(self) -> tuple[int, int, int]:
        """Tenants come after those above them."""
        return RANKS[self.kind.name], self.title.count("/"), self.index


def read_documents(documents: Sequence[Any], by: By) -> list[Asked]:
    """In the order in which they are applied. Raises InvalidInputError with a field for each problem."""
    if len(documents) > MOST_DOCUMENTS:
        raise InvalidInputError(f"at most {MOST_DOCUMENTS} documents at once")
    asked: list[Asked] = []
    problems: dict[str, str] = {}
    for index, document in enumerate(documents):
        try:
            asked.append(_read(index, document, by))
        except (ValidationError, DomainError) as error:
            problems |= {f"documents[{index}].{field}": text for field, text in _fields_of(error).items()}
    problems |= _twice(asked)
    if problems:
        first = next(iter(problems))
        count = f"{len(problems)} problem{'' if len(problems) == 1 else 's'}"
        raise InvalidInputError(f"{count}; {first}: {problems[first]}", fields=problems)
    return sorted(asked, key=lambda each: each.rank)


def _read(index: int, document: Any, by: By) -> Asked:
    kind = _kind_of(document)
    content = {name: value for name, value in document.items() if name != "kind"}
    checked = _checked(kind, content, is_partial=True)
    if missing := [name for name in kind.names if name not in checked]:
        raise ValidationError(dict.fromkeys(missing, "is required"))
    title = kind.title(checked)
    if kind.find(checked, by) is None:
        checked = _checked(kind, content, is_partial=False)
    return Asked(index, kind, title, kind.plain(checked))


def _kind_of(document: Any) -> Kind[Any]:
    if not isinstance(document, dict):
        raise ValidationError({"kind": "a document is an object with its kind"})
    kind = CATALOGUE.get(str(document.get("kind", "")))
    if kind is None:
        raise ValidationError({"kind": f"is one of {', '.join(CATALOGUE)}"})
    return kind


def _checked(kind: Kind[Any], content: dict[Any, Any], *, is_partial: bool) -> dict[str, Any]:
    reader = kind.spec(data=content, partial=is_partial)
    if unknown := [str(name) for name in content if name not in reader.fields]:
        raise ValidationError(dict.fromkeys(unknown, f"a {kind.name} has no such field"))
    for field in reader.fields.values():  # that there is one already is what a document may well say
        field.validators = [each for each in field.validators if not isinstance(each, UniqueValidator)]
    reader.is_valid(raise_exception=True)
    return dict(reader.validated_data)


def _fields_of(error: ValidationError | DomainError) -> dict[str, str]:
    if isinstance(error, DomainError):
        return error.fields or {"kind": error.message}
    return flattened(error.detail)


def _twice(asked: Sequence[Asked]) -> dict[str, str]:
    first: dict[tuple[str, str], int] = {}
    problems = {}
    for each in asked:
        before = first.setdefault((each.kind.name, each.title), each.index)
        if before != each.index:
            problems[f"documents[{each.index}].kind"] = f"{each.title} is in document {before} already"
    return problems

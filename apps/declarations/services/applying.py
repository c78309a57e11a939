"""`apply`: makes things as documents say, in the order of their dependencies, all of them or none."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from django.db import connection, transaction

from apps.common.actors import Actor
from apps.common.errors import ConflictError, DomainError, InvalidInputError
from apps.declarations.models import DeclaredThing
from apps.declarations.services.kinds.catalogue import CATALOGUE, RANKS
from apps.declarations.services.kinds.interface import By, Kind, Spec
from apps.declarations.services.reading import Asked, read_documents
from apps.rest.policies.diffing import differences

CREATE, CHANGE, KEEP, REMOVE, RELEASE = "create", "change", "keep", "remove", "release"
_PLAN_DIGITS = 32


class PlanChangedError(DomainError):
    code = "plan_changed"
    status = 412


@dataclass(frozen=True)
class Result:
    """What becomes of one thing. `document` is None for what none names any more; `note` says what is to come."""

    document: int | None
    kind: str
    title: str
    action: str
    diff: list[dict[str, Any]] = field(default_factory=list)
    owner_before: str | None = None
    note: str = ""


@dataclass(frozen=True)
class Applied:
    """`plan` names exactly these results, so that what was looked at is what is done."""

    set_name: str
    results: list[Result]

    @property
    def plan(self) -> str:
        content = msgspec.json.encode([self.set_name, self.results], enc_hook=str)
        return hashlib.sha256(content).hexdigest()[:_PLAN_DIGITS]


@transaction.atomic
def apply_documents(
    *,
    actor: Actor,
    documents: Sequence[Any],
    set_name: str,
    now: datetime,
    is_pruning: bool = False,
    takes_over: bool = False,
    plan: str = "",
) -> Applied:
    """One at a time. Things that the set owns and that no document names any more go when it is pruning."""
    by = By(actor, now)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('tokenyard.apply'))")
    asked = read_documents(documents, by)
    owners = {(row.kind, row.title): row for row in DeclaredThing.objects.all()}
    results = _apply_all(asked, set_name, owners, by, takes_over=takes_over)
    if is_pruning:
        results += _prune(set_name, asked, owners.values(), by)
    applied = Applied(set_name, results)
    if plan and plan != applied.plan:
        raise PlanChangedError("what would be done now is not what was shown: look at it again")
    return applied


def kinds_of(documents: Iterable[Any]) -> set[str]:
    """Those that are known; the others are refused when they are read."""
    return {str(each.get("kind")) for each in documents if isinstance(each, dict)} & set(CATALOGUE)


def _apply_all(
    asked: Sequence[Asked], set_name: str, owners: dict[tuple[str, str], DeclaredThing], by: By, *, takes_over: bool
) -> list[Result]:
    """Tries each, so that whoever mends the documents hears of all that is refused at once."""
    results: list[Result] = []
    refusals: list[DomainError] = []
    for each in asked:
        try:
            with transaction.atomic():
                results.append(_apply_one(each, set_name, owners, by, takes_over=takes_over))
        except DomainError as error:
            refusals.append(_placed(error, each))
    if refusals:
        raise _all_of(refusals)
    return results


def _apply_one(
    asked: Asked, set_name: str, owners: dict[tuple[str, str], DeclaredThing], by: By, *, takes_over: bool
) -> Result:
    owner = owners.get((asked.kind.name, asked.title))
    _check_owner(owner, set_name, takes_over=takes_over)
    action, diff = _make_so(asked, by)
    owner_before = owner.set_name if owner else None
    _own(asked, set_name, owner, by)
    return Result(asked.index, asked.kind.name, asked.title, action, diff, owner_before)


def _make_so(asked: Asked, by: By) -> tuple[str, list[dict[str, Any]]]:
    kind, row = asked.kind, asked.kind.find(asked.spec, by)
    if row is None:
        kind.create(asked.spec, by)
        return CREATE, differences(None, _shown(kind, asked.spec, by))
    before = kind.shown(row, by)
    pairs = ((name, value, before[name]) for name, value in asked.spec.items() if name in before)
    changed = frozenset(name for name, value, old in pairs if not kind.is_same(name, value, old))
    if not changed:
        return KEEP, []
    if fixed := sorted(changed & kind.fixed):
        text = f"does not change once there is one; it is {before[fixed[0]]!r}"
        raise InvalidInputError(f"{fixed[0]} {text}", fields={fixed[0]: text})
    kind.change(row, before | asked.spec, changed, by)
    return CHANGE, differences(before, _shown(kind, asked.spec, by))


def _shown(kind: Kind[Any], spec: Spec, by: By) -> Spec:
    row = kind.find(spec, by)
    return kind.shown(row, by) if row is not None else {}


def _check_owner(owner: DeclaredThing | None, set_name: str, *, takes_over: bool) -> None:
    if owner is not None and owner.set_name != set_name and not takes_over:
        text = f"belongs to the set {owner.set_name!r}; to take it over, say so"
        raise ConflictError(text, fields={"kind": text})


def _own(asked: Asked, set_name: str, owner: DeclaredThing | None, by: By) -> None:
    if asked.kind.is_kept or (owner is not None and owner.set_name == set_name):
        return
    row = owner or DeclaredThing(kind=asked.kind.name, title=asked.title)
    row.set_name, row.applied_at, row.applied_by = set_name, by.now, by.actor.name
    row.save()


def _prune(set_name: str, asked: Sequence[Asked], owned: Iterable[DeclaredThing], by: By) -> list[Result]:
    named = {(each.kind.name, each.title) for each in asked}
    mine = [row for row in owned if row.set_name == set_name and (row.kind, row.title) not in named]
    last_first = sorted(mine, key=lambda row: (RANKS[row.kind], row.title.count("/"), row.title), reverse=True)
    return [_remove(row, by) for row in last_first]


def _remove(owned: DeclaredThing, by: By) -> Result:
    kind = CATALOGUE[owned.kind]
    row = kind.find_by_title(owned.title, by)
    if row is None:
        owned.delete()
        return Result(None, owned.kind, owned.title, RELEASE, note="it has gone already")
    before = kind.shown(row, by)
    try:
        note = kind.remove(row, by)
    except DomainError as error:
        text = f"{owned.kind} {owned.title} cannot go: {error.message}"
        raise ConflictError(text, fields={"prune": text}) from error
    if note:
        return Result(None, owned.kind, owned.title, CHANGE, note=note)
    owned.delete()
    return Result(None, owned.kind, owned.title, REMOVE, differences(before, {}), owned.set_name)


def _placed(error: DomainError, asked: Asked) -> DomainError:
    """The same error, with the document that it is about."""
    fields = {f"documents[{asked.index}].{name}": text for name, text in error.fields.items()}
    placed = type(error)(
        f"{asked.kind.name} {asked.title}: {error.message}",
        fields=fields or {f"documents[{asked.index}].kind": error.message},
    )
    placed.status = error.status
    return placed


def _all_of(refusals: Sequence[DomainError]) -> DomainError:
    """As the first says; the others may only hang on that one, and have their fields all the same."""
    first = refusals[0]
    if len(refusals) == 1:
        return first
    fields = {name: text for refusal in refusals for name, text in refusal.fields.items()}
    error = type(first)(f"{len(refusals)} documents are refused; {first.message}", fields=fields)
    error.status = first.status
    return error

"""Changing a row that came from outside: what the database or the model refuses becomes a domain error."""

import re

from django.core.exceptions import NON_FIELD_ERRORS, ObjectDoesNotExist, ValidationError
from django.db import DatabaseError, DataError, IntegrityError, models, transaction

from apps.common.errors import ConflictError, DomainError, InvalidInputError, NotFoundError

GONE = "it is gone by now"
_NUL = "\x00"
_RULE = re.compile(r"Constraint “(\w+)” is violated\.")  # their names are sentences


def lock_row(row: models.Model) -> None:
    """As it is now, and nobody else's until the transaction ends: what was read before may be somebody's change ago."""
    rows = row._meta.model._base_manager.select_for_update()  # noqa: SLF001 - Django's documented API
    try:
        row.refresh_from_db(from_queryset=rows)
    except ObjectDoesNotExist as error:
        raise NotFoundError(GONE) from error


def save_checked(row: models.Model) -> None:
    """A row that was there and is gone by now is not made again: somebody has deleted it meanwhile."""
    _refuse_nul(row)
    is_new = row._state.adding  # noqa: SLF001 - Django's documented API
    try:
        row.full_clean()
        with transaction.atomic():
            row.save(force_update=not is_new)
    except ValidationError as error:
        raise _from_validation(error) from error
    except (IntegrityError, DataError) as error:
        raise _from_database(error, row) from error
    except DatabaseError as error:
        if not says_it_is_gone(error):
            raise
        raise NotFoundError(GONE) from error


def says_it_is_gone(error: Exception) -> bool:
    """Django's own words, of no kind that a database has, for a save that found no row to update."""
    return type(error) is DatabaseError


def _refuse_nul(row: models.Model) -> None:
    for field in row._meta.concrete_fields:  # noqa: SLF001 - Django's documented API
        if _NUL in str(getattr(row, field.attname)) or r"\u0000" in repr(getattr(row, field.attname)):
            raise InvalidInputError(f"{field.name} holds a NUL character", fields={field.name: "holds a NUL character"})


def _from_validation(error: ValidationError) -> DomainError:
    if not hasattr(error, "error_dict"):
        return InvalidInputError("; ".join(error.messages))
    codes = {item.code for items in error.error_dict.values() for item in items}
    fields = {name: _in_words(" ".join(messages)) for name, messages in error.message_dict.items()}
    message = "; ".join(fields.values())
    named = {name: text for name, text in fields.items() if name != NON_FIELD_ERRORS}
    kind = ConflictError if codes & {"unique", "unique_together"} else InvalidInputError
    return kind(message, fields=named)


def _in_words(message: str) -> str:
    return _RULE.sub(lambda found: f"The rule “{found[1].replace('_', ' ')}” would be broken.", message)


def _from_database(error: DatabaseError, row: models.Model) -> DomainError:
    kind = ConflictError if isinstance(error, IntegrityError) else InvalidInputError
    return kind(f"this {row._meta.verbose_name} clashes with one that exists or is out of range")  # noqa: SLF001

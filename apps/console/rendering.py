"""A page in the frame of its reader: navigation by role, and what the domain refused beside the field at fault."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from django.forms import Form
from django.http import HttpResponse
from django.shortcuts import render

from apps.common.errors import DomainError
from apps.console.access import ConsoleRequest
from apps.console.navigation import Group, groups_for, role_line
from apps.tenants.selectors import name_tenants

T = TypeVar("T")
TOO_MANY = 429


@dataclass(frozen=True)
class Navigation:
    person: str
    role_line: str
    groups: tuple[Group, ...]
    has_live_link: bool


def render_page(request: ConsoleRequest, template: str, context: dict[str, Any], *, status: int = 200) -> HttpResponse:
    return render(request, f"console/pages/{template}", {**context, "navigation": _navigation(request)}, status=status)


def _navigation(request: ConsoleRequest) -> Navigation:
    tenants = sorted(name_tenants(set(request.actor.roles)).items())
    return Navigation(
        person=request.actor.name,
        role_line=role_line(request.actor, [name for _, name in tenants]),
        groups=groups_for(request.actor, tenants=tenants, path=request.path),
        has_live_link=request.actor.is_operator,
    )


def attempt(form: Form, change: Callable[[], T]) -> T | None:
    """What `change` returns, or None: then the form says why, unless it has not been sent at all."""
    if not form.is_valid():
        return None
    try:
        return change()
    except DomainError as error:
        _show_refusal(form, error)
        return None


def tell_wait(response: HttpResponse, form: Form | None) -> HttpResponse:
    """A page with a message is fine for a person; a wait is told to programs, too."""
    retry_after_s = getattr(getattr(form, "refusal", None), "retry_after_s", None)
    if retry_after_s is not None:
        response.status_code, response.headers["Retry-After"] = TOO_MANY, str(retry_after_s)
    return response


def sentence(words: str) -> str:
    """The domain's words begin small and end bare, as they may stand within others."""
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith(('.', '!', '?')) else '.'}"


def words_of_refusal(form: Form) -> str:
    """For a message above the page, where the form itself is not shown again."""
    return " ".join(str(message) for errors in form.errors.values() for message in errors)


def _show_refusal(form: Form, error: DomainError) -> None:
    """Beside the fields that it names, else above the form. The error itself stays with the form for its status."""
    form.refusal = error  # type: ignore[attr-defined]
    for name, message in error.fields.items():
        form.add_error(name if name in form.fields else None, sentence(message))
    if not error.fields:
        form.add_error(None, sentence(error.message))

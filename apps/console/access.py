"""Who may open which page: each names its permission in `page`, and the matrix says who has it."""

from collections.abc import Callable
from functools import wraps
from typing import Any, cast
from urllib.parse import urlencode, urlsplit

from django.conf import settings
from django.contrib import messages
from django.core.exceptions import BadRequest, PermissionDenied
from django.db import DatabaseError
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseNotAllowed
from django.shortcuts import redirect
from django.urls import reverse
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme

from apps.common.actors import Actor
from apps.common.errors import DomainError, NotAllowedError, NotFoundError
from apps.common.rows import see_rows_of
from apps.common.saving import says_it_is_gone
from apps.common.sessions import is_fresh
from apps.console import once
from apps.tenants.access import with_rule
from apps.tenants.matrix import Permission, may_somewhere
from apps.tenants.models import User
from apps.tenants.selectors import actor_of


class ConsoleRequest(HttpRequest):
    """A request of somebody who is signed in."""

    user: User
    actor: Actor


View = Callable[..., HttpResponseBase]

JSON = "application/json"
METHODS = ["GET", "HEAD", "POST"]

everybody = Permission.SIGNED_IN
operators = Permission.OPERATE


def open_page(view: View) -> View:
    """A view for everybody, signed in or not."""
    return with_rule(view, Permission.OPEN)


def page(permission: Permission, *, is_dangerous: bool = False) -> Callable[[View], Callable[..., HttpResponseBase]]:
    """A view for those who have the permission; what the domain then refuses becomes 404, 403 or 400.

    A dangerous act first asks for the password again when it was last given too long ago.
    """

    def decorate(view: View) -> Callable[..., HttpResponseBase]:
        @wraps(view)
        def entry(request: HttpRequest, **captured: Any) -> HttpResponseBase:
            if not request.user.is_authenticated:
                return _sign_in_first(request)
            signed_in = cast("ConsoleRequest", request)
            signed_in.actor = actor_of(signed_in.user)
            see_rows_of(signed_in.actor)
            if not may_somewhere(signed_in.actor, permission):
                raise PermissionDenied
            if request.method not in METHODS:
                return HttpResponseNotAllowed(METHODS)
            if is_dangerous and not is_fresh(request.session, timezone.now()):
                return _ask_first(request, reverse("console:confirm"))
            return _answer_once(view, signed_in, captured)

        return with_rule(entry, permission)

    return decorate


def _answer_once(view: View, request: ConsoleRequest, captured: dict[str, Any]) -> HttpResponseBase:
    if once.is_repeat(request):
        return _say_it_was_sent(request)
    try:
        return _answer(view, request, captured)
    except Exception:
        if once.FIELD in request.POST:
            once.forget(request)
        raise


def _answer(view: View, request: ConsoleRequest, captured: dict[str, Any]) -> HttpResponseBase:
    try:
        return view(request, **captured)
    except NotFoundError as error:
        raise Http404 from error
    except DatabaseError as error:
        if says_it_is_gone(error):
            raise Http404 from error
        raise
    except NotAllowedError as error:
        raise PermissionDenied from error
    except DomainError as error:
        raise BadRequest(error.message) from error


def _say_it_was_sent(request: ConsoleRequest) -> HttpResponseBase:
    if _is_part(request):
        return HttpResponse(status=204)
    messages.warning(request, "That was sent already, and done once.")
    return redirect(_page_before(request))


def _sign_in_first(request: HttpRequest) -> HttpResponseBase:
    """What a page asks for by itself does not lead its reader away: what is being typed there would be lost."""
    is_form = request.method == "POST" and request.headers.get("Accept") != JSON
    if _is_part(request) and not is_form:
        return HttpResponse(status=401)
    return _ask_first(request, settings.LOGIN_URL)


def _ask_first(request: HttpRequest, url: str) -> HttpResponseBase:
    """Afterwards the reader is back on the page whose button was pressed."""
    target = f"{url}?{urlencode({'next': _page_before(request)})}"
    if _is_part(request):
        return HttpResponse(status=204, headers={"HX-Redirect": target})
    return redirect(target)


def _page_before(request: HttpRequest) -> str:
    """Of a form, the page that it stands on."""
    if request.method != "POST":
        return safe_path(request, request.get_full_path())
    came_from = urlsplit(request.headers.get("Referer", ""))
    return safe_path(request, f"{came_from.path}?{came_from.query}" if came_from.query else came_from.path)


def _is_part(request: HttpRequest) -> bool:
    return "HX-Request" in request.headers or request.headers.get("Accept") == JSON


def safe_path(request: HttpRequest, asked: str | None) -> str:
    """An address of ours, or the start."""
    is_ours = url_has_allowed_host_and_scheme(asked, {request.get_host()}, require_https=request.is_secure())
    return asked if asked and is_ours and "\x00" not in asked else reverse("console:home")


def require(permission: bool) -> None:
    if not permission:
        raise NotAllowedError("your role does not allow that")

"""Signing in, by password and code or at the identity provider; signing out, the start page, and the palette."""

from typing import Any

from django.conf import settings
from django.contrib.auth import login
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_safe

from apps.common.errors import DomainError
from apps.common.rows import every_tenant
from apps.common.sessions import CONFIRMED_AT
from apps.console.access import ConsoleRequest, everybody, open_page, page, safe_path
from apps.console.devices import remember_device, visitor_of
from apps.console.forms import CodeForm, SignInForm
from apps.console.navigation import home_of
from apps.console.palette import list_entries
from apps.console.rendering import attempt, tell_wait
from apps.console.usage_query import read_text
from apps.identity import openid
from apps.identity.selectors import find_second_factor
from apps.identity.services.outside import admit_outsider
from apps.identity.services.sign_in import check_code, check_password
from apps.tenants.models import User
from apps.tenants.selectors import find_active_user

PENDING = "pending_sign_in"
NEXT = "after_sign_in"
PENDING_FOR_S = 300
_PROVIDER_IS_AWAY = 502
_BACKEND = "django.contrib.auth.backends.ModelBackend"


@open_page
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponseBase:
    if request.user.is_authenticated and request.method == "GET":
        return redirect(_next_of(request))
    form = SignInForm(request.POST or None)
    user = attempt(form, lambda: check_password(visitor=visitor_of(request), now=now(), **form.cleaned_data))
    if user is None:
        return _show(request, "sign_in.html", form)
    after = _next_of(request)
    if find_second_factor(user) is None:
        return complete_sign_in(request, user, after)
    request.session[PENDING] = {"user_id": str(user.pk), "at": now().timestamp(), "next": after}
    return redirect("console:sign_in_code")


@open_page
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_code(request: HttpRequest) -> HttpResponseBase:
    """Only for who has just given a password."""
    pending: dict[str, Any] = request.session.get(PENDING) or {}
    user = find_active_user(pending.get("user_id"))
    if user is None or now().timestamp() - pending["at"] > PENDING_FOR_S:
        return redirect("console:sign_in")
    form = CodeForm(request.POST or None)
    person = attempt(form, lambda: check_code(user=user, visitor=visitor_of(request), now=now(), **form.cleaned_data))
    if person is None:
        return _show(request, "sign_in_code.html", form)
    return complete_sign_in(request, person, pending["next"])


@open_page
@require_safe
def provider_begin(request: HttpRequest) -> HttpResponseBase:
    if not openid.is_configured():
        return redirect("console:sign_in")
    request.session[NEXT] = _next_of(request)
    try:
        return openid.begin(request, settings.WEB_URL + reverse("console:provider_return"), now=now())
    except DomainError as error:
        return _refuse(request, error)


@open_page
@require_safe
def provider_return(request: HttpRequest) -> HttpResponseBase:
    if not openid.is_configured():
        return redirect("console:sign_in")
    try:
        claims = openid.finish(request)
        granted = openid.granted_by(claims)
        with every_tenant():
            user = admit_outsider(issuer=settings.OIDC["issuer"], claims=claims, granted=granted, now=now())
    except DomainError as error:
        return _refuse(request, error)
    answer = complete_sign_in(request, user, request.session.get(NEXT) or reverse("console:home"))
    recognised_at = openid.recognised_at_of(claims)
    if recognised_at is not None:
        request.session[CONFIRMED_AT] = min(recognised_at, request.session[CONFIRMED_AT])
    return answer


@page(everybody)
def home(request: ConsoleRequest) -> HttpResponseBase:
    return redirect(home_of(request.actor))


@page(everybody)
def palette(request: ConsoleRequest) -> HttpResponseBase:
    search = read_text(request.GET, "q")
    return JsonResponse({"entries": list_entries(actor=request.actor, search=search)})


def complete_sign_in(request: HttpRequest, user: User, after: str) -> HttpResponseBase:
    """Django's login gives the session a new id; what another user left in it is dropped."""
    for name in (PENDING, NEXT):
        request.session.pop(name, None)
    login(request, user, backend=_BACKEND)
    response = redirect(after)
    remember_device(request, response, user)
    return response


def _next_of(request: HttpRequest) -> str:
    return safe_path(request, request.POST.get("next") or request.GET.get("next"))


def _refuse(request: HttpRequest, error: DomainError) -> HttpResponse:
    form = SignInForm()
    return _show(request, "sign_in.html", form, refusal=error)


def _show(request: HttpRequest, template: str, form: Any, refusal: DomainError | None = None) -> HttpResponse:
    refusal = refusal or getattr(form, "refusal", None)
    context = {
        "form": form,
        "refusal": refusal,
        "next": _next_of(request) if request.GET.get("next") or request.POST.get("next") else "",
        "provider": settings.OIDC.get("name", ""),
    }
    is_away = refusal is not None and refusal.status == _PROVIDER_IS_AWAY
    page = render(request, f"console/pages/{template}", context, status=_PROVIDER_IS_AWAY if is_away else 200)
    return tell_wait(page, form)

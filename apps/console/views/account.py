"""One's own account: password, second factor, sessions, tokens; and the page that asks who one is once more."""

from typing import Any
from uuid import UUID

import pyotp
import segno
from django.contrib import messages
from django.http import HttpResponseBase, QueryDict
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_POST

from apps.common.errors import DomainError
from apps.common.sessions import CONFIRMED_AT, SIGN_IN_ID
from apps.console.access import ConsoleRequest, everybody, page, safe_path
from apps.console.devices import visitor_of
from apps.console.forms import CodeForm, ConfirmForm, PasswordForm, TokenForm
from apps.console.rendering import attempt, render_page, tell_wait
from apps.identity.models import SignInSession
from apps.identity.selectors import count_recovery_codes, find_second_factor, get_session, list_sessions
from apps.identity.services.second_factor import (
    begin_enrolment,
    confirm_enrolment,
    remove_second_factor,
    renew_recovery_codes,
)
from apps.identity.services.sessions import end_session, end_sessions_of
from apps.identity.services.sign_in import check_code, check_password
from apps.tenants.matrix import scopes_for
from apps.tenants.selectors import get_service_token, list_service_tokens
from apps.tenants.services import change_password, create_service_token, revoke_service_token


@page(everybody)
@require_http_methods(["GET"])
def account(request: ConsoleRequest) -> HttpResponseBase:
    return _show(request)


@page(everybody)
@require_http_methods(["GET", "HEAD", "POST"])
def confirm(request: ConsoleRequest) -> HttpResponseBase:
    """Asked before a dangerous act when the last answer is too long ago."""
    has_device = find_second_factor(request.user) is not None
    form = ConfirmForm(request.POST or None, has_device=has_device)
    if attempt(form, lambda: _recognise(request, form)):
        request.session[CONFIRMED_AT] = now().timestamp()
        return redirect(safe_path(request, request.POST.get("next")))
    context = {"form": form, "next": safe_path(request, request.GET.get("next") or request.POST.get("next"))}
    return tell_wait(render_page(request, "confirm.html", context), form)


@page(everybody, is_dangerous=True)
@require_POST
def password_change(request: ConsoleRequest) -> HttpResponseBase:
    form = PasswordForm(request.POST)
    if attempt(form, lambda: _change_password(request, form)) is None:
        return _show(request, password_form=form)
    messages.success(request, "The password is changed; every other session is signed out.")
    return redirect("console:account")


@page(everybody, is_dangerous=True)
@require_http_methods(["GET", "HEAD", "POST"])
def device_add(request: ConsoleRequest) -> HttpResponseBase:
    if find_second_factor(request.user) is not None:
        return redirect("console:account")
    secret = begin_enrolment(user=request.user, now=now())
    form = CodeForm(request.POST or None)
    codes = attempt(
        form, lambda: confirm_enrolment(actor=request.actor, user=request.user, now=now(), **form.cleaned_data)
    )
    if codes is not None:
        return render_page(request, "recovery_codes.html", {"codes": codes})
    return render_page(request, "device_add.html", {"form": form, "secret": secret, "code_svg": _qr(request, secret)})


@page(everybody, is_dangerous=True)
@require_POST
def device_remove(request: ConsoleRequest) -> HttpResponseBase:
    remove_second_factor(actor=request.actor, user=request.user, now=now())
    messages.success(request, "The device is removed; a password alone signs you in again.")
    return redirect("console:account")


@page(everybody, is_dangerous=True)
@require_POST
def recovery_renew(request: ConsoleRequest) -> HttpResponseBase:
    if find_second_factor(request.user) is None:
        return redirect("console:account")
    codes = renew_recovery_codes(actor=request.actor, user=request.user, now=now())
    return render_page(request, "recovery_codes.html", {"codes": codes})


@page(everybody)
@require_POST
def session_end(request: ConsoleRequest, session_id: UUID) -> HttpResponseBase:
    end_session(actor=request.actor, session=get_session(actor=request.actor, session_id=session_id), now=now())
    messages.success(request, "That browser is signed out.")
    return redirect("console:account")


@page(everybody)
@require_POST
def sessions_end(request: ConsoleRequest) -> HttpResponseBase:
    count = end_sessions_of(actor=request.actor, user=request.user, but=_this_session(request), now=now())
    messages.success(request, f"{count} other browser{'' if count == 1 else 's'} signed out.")
    return redirect("console:account")


@page(everybody, is_dangerous=True)
@require_POST
def token_create(request: ConsoleRequest) -> HttpResponseBase:
    form = _token_form(request, request.POST)
    made = attempt(
        form,
        lambda: create_service_token(actor=request.actor, owner=request.user, now=now(), **form.values()),
    )
    created = {"token": made[0], "text": made[1]} if made else None
    return _show(request, token_form=None if made else form, created=created)


@page(everybody)
@require_POST
def token_revoke(request: ConsoleRequest, token_id: UUID) -> HttpResponseBase:
    token = get_service_token(actor=request.actor, token_id=token_id)
    revoke_service_token(actor=request.actor, token=token, now=now())
    messages.success(request, f"{token.name} is revoked.")
    return redirect("console:account")


def _show(request: ConsoleRequest, **changes: Any) -> HttpResponseBase:
    context = {
        "person": request.user,
        "has_device": find_second_factor(request.user) is not None,
        "recovery_code_count": count_recovery_codes(request.user),
        "sessions": list_sessions(actor=request.actor),
        "this_session": request.session.get(SIGN_IN_ID),
        "tokens": list_service_tokens(actor=request.actor).filter(revoked_at=None),
        "password_form": PasswordForm(),
        "token_form": _token_form(request),
        "created": None,
    }
    return render_page(request, "account.html", context | {k: v for k, v in changes.items() if v is not None})


def _token_form(request: ConsoleRequest, sent: QueryDict | None = None) -> TokenForm:
    return TokenForm(sent, auto_id="token_%s", scopes=scopes_for(request.actor), now=now())


def _recognise(request: ConsoleRequest, form: ConfirmForm) -> bool:
    visitor, moment = visitor_of(request), now()
    check_password(name=request.user.username, password=form.cleaned_data["password"], visitor=visitor, now=moment)
    if "code" in form.fields:
        check_code(user=request.user, code=form.cleaned_data["code"], visitor=visitor, now=moment)
    return True


def _change_password(request: ConsoleRequest, form: PasswordForm) -> bool:
    """The browser at hand stays signed in: Django ties a session to the password it was opened with."""
    change_password(actor=request.actor, user=request.user, password=form.cleaned_data["password"], now=now())
    end_sessions_of(actor=request.actor, user=request.user, but=_this_session(request), now=now())
    request.session["_auth_user_hash"] = request.user.get_session_auth_hash()
    request.session.cycle_key()
    return True


def _this_session(request: ConsoleRequest) -> SignInSession | None:
    try:
        return get_session(actor=request.actor, session_id=request.session[SIGN_IN_ID])
    except (DomainError, KeyError):
        return None


def _qr(request: ConsoleRequest, secret: str) -> str:
    uri = pyotp.TOTP(secret).provisioning_uri(name=request.user.username, issuer_name="Tokenyard")
    return str(segno.make(uri, error="m").svg_inline(scale=4, border=2))

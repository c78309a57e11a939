"""Pages that a letter leads to: an invitation, a new password. The link's token is all that the reader has."""

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods

from apps.common.actors import Actor
from apps.common.rows import every_tenant
from apps.console.access import open_page
from apps.console.forms import JoinForm, NewPasswordForm, ResetForm
from apps.console.rendering import attempt, tell_wait
from apps.console.views.session import complete_sign_in
from apps.identity.selectors import find_reset
from apps.identity.services.passwords import ask_for_reset, reset_password
from apps.tenants.models import Membership, User
from apps.tenants.selectors import find_invitation
from apps.tenants.services import accept_invitation, join_by_invitation


@open_page
@require_http_methods(["GET", "HEAD", "POST"])
def invitation(request: HttpRequest, token: str) -> HttpResponseBase:
    """Who is signed in accepts as that user, everybody else makes one."""
    with every_tenant():
        found = find_invitation(text=token, now=now())
        if found is None:
            return _over(request, "invitation", "Ask who invited you for another.")
        if isinstance(request.user, User):
            return _accept(request, request.user, token, {"invitation": found})
        form = JoinForm(request.POST or None)
        joined = attempt(form, lambda: join_by_invitation(token=token, now=now(), **form.cleaned_data))
        if joined is None:
            return _show(request, "invitation.html", {"invitation": found, "form": form})
        return complete_sign_in(request, joined.user, f"/tenants/{joined.tenant_id}/home/")


@open_page
@require_http_methods(["GET", "HEAD", "POST"])
def reset_ask(request: HttpRequest) -> HttpResponseBase:
    form = ResetForm(request.POST or None)
    address = request.META.get("REMOTE_ADDR", "")
    is_asked = attempt(form, lambda: ask_for_reset(address=address, now=now(), **form.cleaned_data))
    return _show(request, "reset_ask.html", {"form": form, "is_asked": is_asked})


@open_page
@require_http_methods(["GET", "HEAD", "POST"])
def reset_set(request: HttpRequest, token: str) -> HttpResponseBase:
    if find_reset(text=token, now=now()) is None:
        return _over(request, "link", "Ask for another under “Forgot the password?”.")
    form = NewPasswordForm(request.POST or None)
    user = attempt(form, lambda: reset_password(token=token, now=now(), **form.cleaned_data))
    if user is None:
        return _show(request, "reset_set.html", {"form": form})
    messages.success(request, "The password is changed, and every session is signed out. Sign in with the new one.")
    return redirect("console:sign_in")


def _over(request: HttpRequest, what: str, remedy: str) -> HttpResponseBase:
    context = {"what": what, "remedy": remedy}
    return render(request, "console/pages/link_over.html", context, status=404)


def _accept(request: HttpRequest, user: User, token: str, context: dict[str, Any]) -> HttpResponseBase:
    form = JoinForm()
    if request.method == "POST":
        actor = Actor(user_id=user.pk, name=user.get_username())
        form = JoinForm({"username": user.username, "password": "-"})
        accepted: Membership | None = attempt(
            form, lambda: accept_invitation(actor=actor, token=token, user=user, now=now())
        )
        if accepted is not None:
            return redirect("console:tenant", accepted.tenant_id)
    return _show(request, "invitation.html", {**context, "form": form, "person": user})


def _show(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponseBase:
    """The address holds the token, which the referrer policy of all pages, same-origin, keeps from others.

    A stricter one would have browsers send their forms from "null", which the protection against forgery refuses.
    """
    return tell_wait(render(request, f"console/pages/{template}", context), context.get("form"))

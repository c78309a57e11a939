"""Ties Django's session to our own record of it: ended here, it is over; other rights, another id."""

from collections.abc import Callable
from typing import Any

from django.contrib.auth import logout
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils import timezone

from apps.common.sessions import ACCESS_VERSION, CONFIRMED_AT, SIGN_IN_ID
from apps.identity.selectors import find_session
from apps.identity.services.sessions import note_seen, start_session
from apps.tenants.models import User

Respond = Callable[[HttpRequest], HttpResponseBase]


def session_began(request: HttpRequest, user: User, **_: Any) -> None:
    """Follows each sign-in, whichever way it went."""
    now = timezone.now()
    address, browser = request.META.get("REMOTE_ADDR", ""), request.META.get("HTTP_USER_AGENT", "")
    session = start_session(user=user, address=address, browser=browser, now=now)
    request.session[SIGN_IN_ID] = str(session.pk)
    request.session[CONFIRMED_AT] = now.timestamp()
    request.session[ACCESS_VERSION] = user.access_version


def watch_sessions(get_response: Respond) -> Respond:
    def middleware(request: HttpRequest) -> HttpResponseBase:
        if request.user.is_authenticated:
            _check(request, request.user)
        return get_response(request)

    return middleware


def _check(request: HttpRequest, user: User) -> None:
    session = find_session(request.session, user.pk)
    if session is None:
        logout(request)
        return
    note_seen(session=session, now=timezone.now())
    if request.session.get(ACCESS_VERSION) != user.access_version:
        request.session.cycle_key()
        request.session[ACCESS_VERSION] = user.access_version

"""Which users have signed in with this browser before: a signed cookie, so that guessers elsewhere slow nobody here."""

import secrets
from uuid import UUID

from django.conf import settings
from django.core import signing
from django.http import HttpRequest, HttpResponseBase

from apps.identity.services.sign_in import Visitor
from apps.tenants.models import User

COOKIE = "tokenyard_device"
_SALT = "tokenyard.device"
_LIFETIME_S = 180 * 86_400
_MOST_USERS = 5


def visitor_of(request: HttpRequest) -> Visitor:
    return Visitor(address=request.META.get("REMOTE_ADDR", ""), devices=_known(request))


def remember_device(request: HttpRequest, response: HttpResponseBase, user: User) -> None:
    known = _known(request)
    known[user.pk] = known.get(user.pk) or secrets.token_hex(16)
    newest = dict(list(known.items())[-_MOST_USERS:])
    text = signing.dumps({str(user_id): device for user_id, device in newest.items()}, salt=_SALT)
    response.set_cookie(
        COOKIE,
        text,
        max_age=_LIFETIME_S,
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )


def _known(request: HttpRequest) -> dict[UUID, str]:
    try:
        stored = signing.loads(request.COOKIES.get(COOKIE, ""), salt=_SALT, max_age=_LIFETIME_S)
        return {UUID(user_id): device for user_id, device in stored.items()}
    except (signing.BadSignature, ValueError):
        return {}

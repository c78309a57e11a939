"""A form that is sent twice is done once: what a page sent stays known for a day, in Valkey."""

import hashlib

from django.http import HttpRequest
from redis.exceptions import RedisError

from apps.common.valkey import blocking_client

FIELD = "_once"  # shell.js puts another one into each form of each page that is opened
_KEPT_S = 86_400


def is_repeat(request: HttpRequest) -> bool:
    """Whether this very content of this very page was sent before. Without Valkey nothing is refused."""
    if request.method != "POST" or not request.POST.get(FIELD):
        return False
    try:
        return not blocking_client().set(_name_of(request), 1, nx=True, ex=_KEPT_S)
    except (RedisError, OSError):
        return False


def forget(request: HttpRequest) -> None:
    """It was not done, so it may be sent again."""
    try:
        blocking_client().delete(_name_of(request))
    except (RedisError, OSError):
        return


def _name_of(request: HttpRequest) -> str:
    sent = sorted((name, values) for name, values in request.POST.lists() if name != "csrfmiddlewaretoken")
    return f"console:once:{hashlib.sha256(repr((str(request.user.pk), request.path, sent)).encode()).hexdigest()}"

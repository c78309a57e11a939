"""How often a token, a person or an address may ask: a bucket each in Valkey. Without Valkey nobody is refused."""

import logging
import math
import time
from typing import Any

from django.conf import settings
from redis.exceptions import RedisError
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from apps.common.valkey import blocking_client

log = logging.getLogger(__name__)

BURST_S = 15.0
_LEFT_ALONE_S = 5.0
# The generic cell rate algorithm: one key holds when the bucket is empty again. Answers room left, seconds to wait.
_ASK = """
local now, each, burst = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local empty_at = math.max(tonumber(redis.call('GET', KEYS[1]) or 0), now)
local wait = empty_at + each - burst - now
if wait > 0 then return {0, tostring(wait)} end
redis.call('SET', KEYS[1], tostring(empty_at + each), 'PX', math.ceil((empty_at + each - now) * 1000) + 1000)
return {math.floor((now + burst - empty_at - each) / each), '0'}
"""


class ByWhoAsks(BaseThrottle):
    """A browser's session counts as its person, a request without either as the address it comes from."""

    _silent_until_s = 0.0

    def allow_request(self, request: Request, view: Any) -> bool:  # noqa: ARG002 - DRF's signature
        per_minute = settings.API_REQUESTS_PER_MINUTE
        if not per_minute or getattr(request._request, "is_inner", False):  # noqa: SLF001 - Django's request in DRF's
            return True
        room, self._wait_s = self._ask(f"tokenyard.rest.rate:{asker_of(request)}", 60.0 / per_minute)
        request._request.rate = (per_minute, room, self._wait_s)  # type: ignore[attr-defined]  # noqa: SLF001
        return self._wait_s <= 0

    def wait(self) -> float:
        return max(1.0, math.ceil(self._wait_s))

    @classmethod
    def _ask(cls, key: str, each_s: float) -> tuple[int, float]:
        """A Valkey that hangs is left alone for a while, so that it does not slow every request."""
        if time.monotonic() < cls._silent_until_s:
            return 0, 0.0
        try:
            client: Any = blocking_client()
            room, wait_s = client.eval(_ASK, 1, key, time.time(), each_s, BURST_S)
        except (RedisError, OSError) as error:
            log.warning("nobody counts how often who asks", extra={"error": str(error)})
            cls._silent_until_s = time.monotonic() + _LEFT_ALONE_S
            return 0, 0.0
        return int(room), float(wait_s)


def asker_of(request: Request) -> str:
    """Never a token's text."""
    if request.auth is not None:
        return f"token:{getattr(request.auth, 'pk', '')}"
    if request.user is not None and request.user.is_authenticated:
        return f"user:{request.user.pk}"
    return f"address:{request.META.get('REMOTE_ADDR', '')}"


def rate_headers(request: Any) -> dict[str, str]:
    """As the IETF's draft names them."""
    rate = getattr(request, "rate", None)
    if rate is None:
        return {}
    per_minute, room, wait_s = rate
    headers = {"RateLimit-Limit": str(per_minute), "RateLimit-Remaining": str(max(0, room))}
    return headers | {"RateLimit-Reset": str(math.ceil(max(0.0, wait_s)))}

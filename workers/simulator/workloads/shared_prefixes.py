"""What prompts of a past day had in common, as far as their records tell: how much of each was cached.

A record has no prompt. But what an engine found cached of one was in an earlier prompt, most likely the latest of the
same conversation, person or key, or else of the same tenant. So each prompt is numbered in units, and begins with the
units of that one, as many as were cached. Prompts of two tenants never share any.
"""

from collections import deque
from itertools import count

UNIT_TOKENS = 128
REMEMBERED = 8
MAX_GROUPS = 100_000


class SharedPrefixes:
    """Prompts come in order of time."""

    def __init__(self) -> None:
        self._numbers = count()
        self._latest: dict[tuple[str, str], tuple[int, ...]] = {}
        self._of_tenant: dict[str, deque[tuple[int, ...]]] = {}

    def units_of(self, tenant: str, group: str, prompt_tokens: int, cached_tokens: int) -> tuple[int, ...]:
        """`group` is what the requests of one conversation have in common, "" if that is not known."""
        shared = self._shared(tenant, group, min(cached_tokens, prompt_tokens) // UNIT_TOKENS)
        fresh = prompt_tokens // UNIT_TOKENS - len(shared)
        units = shared + tuple(next(self._numbers) for _ in range(fresh))
        self._remember(tenant, group, units)
        return units

    def _shared(self, tenant: str, group: str, wanted: int) -> tuple[int, ...]:
        """Of the latest prompt that has as much, those of the group first; or of the one that has most."""
        candidates: list[tuple[int, ...]] = [self._latest.get((tenant, group), ()), *self._of_tenant.get(tenant, ())]
        longest = max(candidates, key=len)
        return next((units for units in candidates if len(units) >= wanted), longest)[:wanted]

    def _remember(self, tenant: str, group: str, units: tuple[int, ...]) -> None:
        if group:
            self._latest.pop((tenant, group), None)
            self._latest[tenant, group] = units
            if len(self._latest) > MAX_GROUPS:
                del self._latest[next(iter(self._latest))]
        self._of_tenant.setdefault(tenant, deque(maxlen=REMEMBERED)).appendleft(units)

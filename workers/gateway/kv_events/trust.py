"""Whether the tokens that an engine names for a prompt are those that it then runs on."""

from collections import deque
from collections.abc import Sequence

from workers.gateway.kv_events.cached import CachedBlocks

# A prompt is in some cache by then, or was refused or cancelled.
PROOF_AFTER_S = 10.0
MAX_PENDING = 256
ENOUGH = 20
LEAST_SHARE = 0.25


class Trust:
    """A few prompts that never show up prove nothing; most of the last ENOUGH do."""

    def __init__(self) -> None:
        self._pending: deque[tuple[float, int]] = deque(maxlen=MAX_PENDING)
        self._results: deque[bool] = deque(maxlen=ENOUGH)

    @property
    def is_lost(self) -> bool:
        return len(self._results) == ENOUGH and sum(self._results) < LEAST_SHARE * ENOUGH

    def expect(self, name: int, now: float) -> None:
        """The prompt's first block should be cached soon."""
        self._pending.append((now, name))

    def check(self, caches: Sequence[CachedBlocks | set[int]], now: float) -> None:
        still: deque[tuple[float, int]] = deque(maxlen=MAX_PENDING)
        for expected_at, name in self._pending:
            if any(name in cached for cached in caches):
                self._results.append(True)
            elif now - expected_at > PROOF_AFTER_S:
                self._results.append(False)
            else:
                still.append((expected_at, name))
        self._pending = still

from contextlib import suppress
from pathlib import Path

from workers.agent.storage.weights import cached_weights, free_disk_bytes
from workers.contracts.telemetry import DiskReport

_LISTED_EACH_S = 30.0


class WeightsDisk:
    """The disk that weights are fetched to. Which are there is a walk through them, done now and then."""

    def __init__(self, hub: Path) -> None:
        self._hub = hub
        self._weights: dict[str, int] = {}
        self._listed_at: float | None = None

    def sample(self, now: float) -> DiskReport:
        if self._listed_at is None or not 0 <= now - self._listed_at < _LISTED_EACH_S:
            self._listed_at = now
            with suppress(OSError):  # something was deleted under the walk: the next one sees it
                self._weights = cached_weights(self._hub)
        return DiskReport(free_bytes=free_disk_bytes(self._hub), weights=self._weights)

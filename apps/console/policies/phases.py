"""Where the time of one request went. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Phase:
    name: str
    series: int
    ms: float
    percent: float
    offset: float


def phases_of(*, queue_ms: float | None, ttft_ms: float | None, total_ms: float) -> list[Phase]:
    """In order, as far as they are known. `ttft_ms` counts from arrival, so it includes the queue."""
    queued = min(queue_ms or 0.0, total_ms)
    parts = [("waiting in the queue", queued)]
    if ttft_ms is None:
        parts.append(("until it ended", total_ms - queued))
    else:
        first = min(max(ttft_ms, queued), total_ms)
        parts += [("until the first token", first - queued), ("until the last", total_ms - first)]
    phases: list[Phase] = []
    offset = 0.0
    for series, (name, ms) in enumerate(parts, start=1):
        percent = 100 * ms / total_ms if total_ms else 0.0
        phases.append(Phase(name, series, ms, percent, offset))
        offset += percent
    return phases

"""Counts of settled requests, kept in lists of numbers; docs/metrics.md lists every name that is made of them.

`observe` runs on the gateway's loop, once per request, and adds in line: calls would double its price. `render` runs on
the admin port's thread, where a number may be one request newer than the next, which a scrape cannot tell.
"""

from bisect import bisect_left
from collections.abc import Iterable

from msgspec import Struct, field

from workers.contracts.usage import UsageRecord
from workers.gateway.kv_events.figures import KVEventFigures
from workers.gateway.limits.figures import LimitFigures

# Buckets as OpenTelemetry's GenAI conventions advise them; times in milliseconds, as records have them.
TTFT_MS = (1, 5, 10, 20, 40, 60, 80, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000)
DURATION_MS = (10, 20, 40, 80, 160, 320, 640, 1280, 2560, 5120, 10240, 20480, 40960, 81920)
TPOT_MS = (10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 2500)
QUEUE_MS = (1, 10, 100, *DURATION_MS[5:])
TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)

OUTCOMES = ("completed", "client_left", "rejected", "refused", "failed")
_STATUS_GROUPS = 6
MAX_SERIES = 1000
OTHER = "other"

SeriesKey = tuple[str, str, str]


class Histogram(Struct, eq=False):
    """`counts` has one more than there are bounds: what lies above the last."""

    bounds: tuple[int, ...]
    counts: list[int]
    total: float = 0.0

    @classmethod
    def over(cls, bounds: tuple[int, ...]) -> "Histogram":
        return cls(bounds, [0] * (len(bounds) + 1))

    @classmethod
    def sum_of(cls, histograms: Iterable["Histogram"]) -> "Histogram":
        """Of some with the same bounds; there is at least one."""
        first, *others = histograms
        counts, total = list(first.counts), first.total
        for other in others:
            counts = [a + b for a, b in zip(counts, other.counts, strict=True)]
            total += other.total
        return cls(first.bounds, counts, total)


def _histogram(bounds: tuple[int, ...]) -> Histogram:
    return field(default_factory=lambda: Histogram.over(bounds))


class Series(Struct, eq=False, kw_only=True):
    """Of one model, service class and path. `outcomes` counts by outcome and group of status."""

    outcomes: list[int] = field(default_factory=lambda: [0] * (len(OUTCOMES) * _STATUS_GROUPS))
    duration_ms: Histogram = _histogram(DURATION_MS)
    queue_ms: Histogram = _histogram(QUEUE_MS)
    ttft_ms: Histogram = _histogram(TTFT_MS)
    tpot_ms: Histogram = _histogram(TPOT_MS)
    input_tokens: Histogram = _histogram(TOKENS)
    output_tokens: Histogram = _histogram(TOKENS)
    cached_input_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: int = 0

    def by_outcome(self) -> list[tuple[str, int, int]]:
        """(outcome, hundreds of the status, count), of those that have been seen."""
        numbered = enumerate(self.outcomes)
        return [(OUTCOMES[slot // _STATUS_GROUPS], slot % _STATUS_GROUPS, count) for slot, count in numbered if count]


_OUTCOME_SLOTS = {outcome: number * _STATUS_GROUPS for number, outcome in enumerate(OUTCOMES)}


class SpanCounts(Struct):
    """`dropped`: no collector took them, or too many waited for one."""

    sent: int = 0
    dropped: int = 0


class RequestMetrics:
    """`in_flight` is (running, waiting) by model, as of the last second. Series are bounded: the rest share one."""

    def __init__(self) -> None:
        self.series: dict[SeriesKey, Series] = {}
        self.in_flight: dict[str, tuple[int, int]] = {}
        self.refused_unrecorded: dict[str, int] = {}
        self.limits = LimitFigures()
        self.kv_events = KVEventFigures()
        self.spans = SpanCounts()
        self.dropped_prompts = 0

    def observe(self, record: UsageRecord) -> None:
        key = (record.public_model, record.service_class, record.path)
        series = self.series.get(key) or self._open(key)
        series.outcomes[_OUTCOME_SLOTS[record.outcome] + min(record.status // 100, _STATUS_GROUPS - 1)] += 1
        total_ms, queue_ms, ttft_ms = record.total_ms, record.queue_ms, record.ttft_ms
        series.duration_ms.counts[bisect_left(DURATION_MS, total_ms)] += 1
        series.duration_ms.total += total_ms
        if queue_ms is not None:
            series.queue_ms.counts[bisect_left(QUEUE_MS, queue_ms)] += 1
            series.queue_ms.total += queue_ms
        if ttft_ms is not None:
            _add_token_times(series, record, ttft_ms)
        if record.usage_source != "none":
            _add_tokens(series, record)

    def count_unrecorded(self, code: str) -> None:
        """An error of ours to a request that leaves no record: nobody known asked, or for nothing."""
        self.refused_unrecorded[code] = self.refused_unrecorded.get(code, 0) + 1

    def _open(self, key: SeriesKey) -> Series:
        if len(self.series) >= MAX_SERIES:
            key = (OTHER, OTHER, key[2])
        return self.series.setdefault(key, Series())


def _add_token_times(series: Series, record: UsageRecord, ttft_ms: float) -> None:
    series.ttft_ms.counts[bisect_left(TTFT_MS, ttft_ms)] += 1
    series.ttft_ms.total += ttft_ms
    if record.output_tokens > 1:
        tpot_ms = (record.total_ms - ttft_ms) / (record.output_tokens - 1)
        series.tpot_ms.counts[bisect_left(TPOT_MS, tpot_ms)] += 1
        series.tpot_ms.total += tpot_ms


def _add_tokens(series: Series, record: UsageRecord) -> None:
    tokens_in, tokens_out = record.input_tokens, record.output_tokens
    series.input_tokens.counts[bisect_left(TOKENS, tokens_in)] += 1
    series.input_tokens.total += tokens_in
    series.output_tokens.counts[bisect_left(TOKENS, tokens_out)] += 1
    series.output_tokens.total += tokens_out
    series.cached_input_tokens += record.cached_input_tokens
    series.reasoning_tokens += record.reasoning_tokens
    series.estimated += record.usage_source == "estimated"

"""Counts of settled requests, kept in lists of numbers; docs/metrics.md lists every name that is made of them.

`observe` runs on the gateway's loop, once per request. `render` runs on the admin port's thread, where a number may be
one request newer than the next, which a scrape cannot tell.
"""

from collections.abc import Iterable

from workers.contracts.usage import UsageRecord
from workers.gateway.kv_events.figures import KVEventFigures
from workers.gateway.limits.figures import LimitFigures
from workers.gateway.sisters.figures import SisterFigures

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


class Histogram:
    """`counts` has one more than there are bounds: what lies above the last."""

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    @staticmethod
    def sum_of(histograms: Iterable["Histogram"]) -> "Histogram":
        """Of some with the same bounds; there is at least one."""
        summed: Histogram | None = None
        for histogram in histograms:
            summed = summed or Histogram(histogram.bounds)
            summed.counts = [a + b for a, b in zip(summed.counts, histogram.counts, strict=True)]
            summed.total += histogram.total
        assert summed is not None, "there is at least one"  # noqa: S101 - an invariant
        return summed

    def add(self, value: float) -> None:
        slot = 0
        for bound in self.bounds:
            if value <= bound:
                break
            slot += 1
        self.counts[slot] += 1
        self.total += value


class Series:
    """Of one model, service class and path. `outcomes` counts by outcome and group of status."""

    __slots__ = (
        "cached_input_tokens",
        "decode_ms_total",
        "duration_ms",
        "estimated",
        "input_tokens",
        "outcomes",
        "output_tokens",
        "prefill_ms_total",
        "queue_ms",
        "reasoning_tokens",
        "tpot_ms",
        "ttft_ms",
    )

    def __init__(self) -> None:
        self.outcomes = [0] * (len(OUTCOMES) * _STATUS_GROUPS)
        self.duration_ms = Histogram(DURATION_MS)
        self.queue_ms = Histogram(QUEUE_MS)
        self.ttft_ms = Histogram(TTFT_MS)
        self.tpot_ms = Histogram(TPOT_MS)
        self.input_tokens = Histogram(TOKENS)
        self.output_tokens = Histogram(TOKENS)
        self.prefill_ms_total = self.decode_ms_total = 0.0
        self.cached_input_tokens = 0
        self.reasoning_tokens = 0
        self.estimated = 0

    def by_outcome(self) -> list[tuple[str, int, int]]:
        """(outcome, hundreds of the status, count), of those that have been seen."""
        numbered = enumerate(self.outcomes)
        return [(OUTCOMES[slot // _STATUS_GROUPS], slot % _STATUS_GROUPS, count) for slot, count in numbered if count]


_OUTCOME_SLOTS = {outcome: number * _STATUS_GROUPS for number, outcome in enumerate(OUTCOMES)}


class SpanCounts:
    """`dropped`: no collector took them, or too many waited for one."""

    __slots__ = ("dropped", "sent")

    def __init__(self) -> None:
        self.sent = 0
        self.dropped = 0


class RequestMetrics:
    """Series are bounded: the rest share one.

    `in_flight` is (running, waiting), `kv_used` how full the engines' caches are and `kv_blocks` how many blocks they
    have, by the tokens of a block; all by model, as of the last second.
    """

    def __init__(self) -> None:
        self.series: dict[SeriesKey, Series] = {}
        self.in_flight: dict[str, tuple[int, int]] = {}
        self.kv_used: dict[str, float] = {}
        self.kv_blocks: dict[str, dict[int, int]] = {}
        self.refused_unrecorded: dict[str, int] = {}
        self.limits = LimitFigures()
        self.kv_events = KVEventFigures()
        self.sisters = SisterFigures()
        self.spans = SpanCounts()
        self.dropped_prompts = 0

    def observe(self, record: UsageRecord) -> None:
        key = (record.public_model, record.service_class, record.path)
        series = self.series.get(key) or self._open(key)
        series.outcomes[_OUTCOME_SLOTS[record.outcome] + min(record.status // 100, _STATUS_GROUPS - 1)] += 1
        series.duration_ms.add(record.total_ms)
        queue_ms, ttft_ms = record.queue_ms, record.ttft_ms
        if queue_ms is not None:
            series.queue_ms.add(queue_ms)
        if ttft_ms is not None:
            _add_token_times(series, record, queue_ms or 0.0, ttft_ms)
        if record.usage_source != "none":
            _add_tokens(series, record)

    def count_unrecorded(self, code: str) -> None:
        """An error of ours to a request that leaves no record: nobody known asked, or for nothing."""
        self.refused_unrecorded[code] = self.refused_unrecorded.get(code, 0) + 1

    def _open(self, key: SeriesKey) -> Series:
        if len(self.series) >= MAX_SERIES:
            key = (OTHER, OTHER, key[2])
        return self.series.setdefault(key, Series())


def _add_token_times(series: Series, record: UsageRecord, queue_ms: float, ttft_ms: float) -> None:
    decode_ms = record.total_ms - ttft_ms
    series.ttft_ms.add(ttft_ms)
    series.prefill_ms_total += ttft_ms - queue_ms
    series.decode_ms_total += decode_ms
    if record.output_tokens > 1:
        series.tpot_ms.add(decode_ms / (record.output_tokens - 1))


def _add_tokens(series: Series, record: UsageRecord) -> None:
    series.input_tokens.add(record.input_tokens)
    series.output_tokens.add(record.output_tokens)
    series.cached_input_tokens += record.cached_input_tokens
    series.reasoning_tokens += record.reasoning_tokens
    series.estimated += record.usage_source == "estimated"

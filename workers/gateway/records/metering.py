"""What a request used and what it costs: exactly one record each."""

import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from workers.contracts.ids import uuid7
from workers.contracts.outcomes import TaskOutcome
from workers.contracts.recording import record_of
from workers.contracts.settlement import NOTHING, Origin, Settlement, Used
from workers.contracts.usage import Outcome, UsageRecord
from workers.gateway.payload.bodies import Usage

TTFT_WINDOW_S = 60.0
_TTFTS_MAX = 2000


def reported(usage: Usage) -> Used:
    """As the engine said; a cached count above the input (seen in engines' bugs) is cut to it."""
    input_tokens = _at_least_0(usage.prompt_tokens)
    output_tokens = _at_least_0(usage.completion_tokens)
    if usage.prompt_tokens_details is None and usage.completion_tokens_details is None:
        return Used(source="engine", input_tokens=input_tokens, output_tokens=output_tokens)
    return Used(
        source="engine",
        input_tokens=input_tokens,
        cached_input_tokens=min(_at_least_0(usage.cached_tokens), input_tokens),
        output_tokens=output_tokens,
        reasoning_tokens=_at_least_0(usage.reasoning_tokens),
    )


def _at_least_0(tokens: int | None) -> int:
    return tokens if tokens is not None and tokens > 0 else 0


def estimated_from_first(usage: Usage, *, choices: int, prompts: int) -> Used:
    """Of an engine that reports the first of several choices alone: as if the others were like it."""
    return Used(
        source="estimated",
        input_tokens=max(usage.prompt_tokens or 0, 0) * prompts,
        output_tokens=max(usage.completion_tokens or 0, 0) * choices,
    )


def outcome_of(status: int) -> Outcome:
    """Of a request that got its whole answer, from the engine or from us."""
    if status < 400:  # noqa: PLR2004 - HTTP
        return "completed"
    return "rejected" if status < 500 else "failed"  # noqa: PLR2004 - HTTP


class Records(Protocol):
    def append(self, record: UsageRecord) -> None: ...


class Meter:
    """Turns settlements into records, in the spool and in the running totals. `observers` see each record.

    `settled` is told of each settlement, its tokens and its cost, however the request ended. `keepers` are those who
    take the records that are kept, by their ids; `awaited` are the ids of those that await their delivery.
    """

    def __init__(
        self,
        records: Records,
        *,
        origin: Origin,
        monotonic: Callable[[], float],
        unix_time: Callable[[], float],
        randomness: random.Random,
        observers: Sequence[Callable[[UsageRecord], None]] = (),
        settled: Callable[[object, int, int], None] | None = None,
    ) -> None:
        self._observers = list(observers)
        self._settled = settled
        self._records = records
        self._origin = origin
        self._monotonic = monotonic
        self._unix_time = unix_time
        self._randomness = randomness
        self._sequence = 0
        self.keepers: dict[str, Callable[[UsageRecord], None]] = {}
        self.awaited: set[str] = set()
        self._ttfts: deque[tuple[float, float]] = deque(maxlen=_TTFTS_MAX)
        self.requests_total = 0
        self.refused_total = 0
        self.failed_total = 0
        self.input_tokens_total = 0
        self.output_tokens_total = 0

    def identify(self, request: Settlement) -> None:
        """Fixes what its record is known by."""
        if not request.arrived_unix_s:
            request.arrived_unix_s = self._unix_time() - (self._monotonic() - request.arrived_at)
            request.record_id = request.record_id or uuid7(request.arrived_unix_s, self._randomness.getrandbits(74))

    def settle(self, request: Settlement, used: Used, outcome: Outcome, status: int, error_code: str = "") -> None:
        """Called exactly once per request, before the last byte of its answer is written."""
        now = self._monotonic()
        sequence = 0 if request.is_kept or request.awaits_delivery else self._next_sequence()
        record = self._record(request, used, now, sequence, outcome=outcome, status=status, error_code=error_code)
        if request.awaits_delivery:
            self.keepers.pop(request.record_id)(record)
            return
        if self._settled is not None:
            self._settled(request, record.input_tokens + record.output_tokens, record.cost_pico_usd)
        if request.is_kept:
            self.keepers.pop(request.record_id)(record)
        else:
            self._write(record, now)

    def forget(self, request: Settlement) -> None:
        """Of one that another node answers, and records: here it used nothing."""
        self.keepers.pop(request.record_id, None)
        self.awaited.discard(request.record_id)
        if self._settled is not None:
            self._settled(request, 0, 0)

    def write_delivered(self, request: Settlement, record: UsageRecord) -> None:
        """What `settle` gave to a keeper. It is numbered only here: in the spool numbers follow each other."""
        self.awaited.discard(request.record_id)
        if self._settled is not None:
            self._settled(request, record.input_tokens + record.output_tokens, record.cost_pico_usd)
        self._write(msgspec.structs.replace(record, sequence=self._next_sequence()), self._monotonic())

    def write_kept(self, record: UsageRecord) -> None:
        """As one of this process, whichever settled it."""
        origin, sequence = self._origin, self._next_sequence()
        own = msgspec.structs.replace(
            record, gateway_id=origin.gateway_id, boot_id=origin.boot_id, node_id=origin.node_id, sequence=sequence
        )
        self._write(own, self._monotonic())

    def note_outcome(self, request: Settlement, told: TaskOutcome) -> None:
        """A client's report: it has its number among the records, and is no request to an engine."""
        now = self._monotonic()
        record = self._record(request, NOTHING, now, self._next_sequence())
        self._records.append(msgspec.structs.replace(record, task_outcome=told))

    def ttfts_ms(self) -> list[float]:
        """Sorted, of the requests whose first token came in the last 60 s."""
        oldest = self._monotonic() - TTFT_WINDOW_S
        while self._ttfts and self._ttfts[0][0] < oldest:
            self._ttfts.popleft()
        return sorted(ttft_ms for _, ttft_ms in self._ttfts)

    def _next_sequence(self) -> int:
        self._sequence += 1
        return self._sequence

    def _write(self, record: UsageRecord, now: float) -> None:
        self._records.append(record)
        self._count(record, now)
        for observe in self._observers:
            observe(record)

    def _record(
        self,
        request: Settlement,
        used: Used,
        now: float,
        sequence: int,
        *,
        outcome: Outcome = "completed",
        status: int = 200,
        error_code: str = "",
    ) -> UsageRecord:
        self.identify(request)
        return record_of(
            request,
            used,
            self._origin,
            sequence=sequence,
            now=now,
            outcome=outcome,
            status=status,
            error_code=error_code,
        )

    def _count(self, record: UsageRecord, now: float) -> None:
        outcome, ttft_ms = record.outcome, record.ttft_ms
        self.requests_total += 1
        if outcome == "refused":
            self.refused_total += 1
        elif outcome == "failed":
            self.failed_total += 1
        self.input_tokens_total += record.input_tokens
        self.output_tokens_total += record.output_tokens
        if ttft_ms is not None:
            self._ttfts.append((now, ttft_ms))

"""What a request used and what it costs: exactly one record each."""

import math
import random
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from workers.contracts.ids import uuid7
from workers.contracts.snapshot import Price
from workers.contracts.usage import Outcome, UsageRecord, UsageSource
from workers.gateway.bodies import Usage

# English text in current tokenizers; only for requests whose engine did not get to say.
BYTES_PER_TOKEN = 4
TTFT_WINDOW_S = 60.0
_TTFTS_MAX = 2000


class Used(Struct, frozen=True, kw_only=True):
    source: UsageSource = "none"
    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0


NOTHING = Used()


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


def estimated(*, prompt_bytes: int, output_tokens: int, input_tokens: int | None = None) -> Used:
    """`input_tokens` None is unknown, and guessed from the bytes."""
    if input_tokens is None:
        input_tokens = math.ceil(prompt_bytes / BYTES_PER_TOKEN)
    return Used(source="estimated", input_tokens=input_tokens, output_tokens=max(output_tokens, 0))


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


def cost_pico_usd(used: Used, price: Price) -> int:
    uncached = used.input_tokens - used.cached_input_tokens
    return (
        uncached * price.input_pico_usd
        + used.cached_input_tokens * price.cached_input_pico_usd
        + used.output_tokens * price.output_pico_usd
    )


class Settlement(Struct, kw_only=True):
    """All that a record needs of one request; times in seconds of the same monotonic clock.

    `spent_engine_s` is the time on engines of the attempts before the one that `dispatched_at` began.
    """

    request_id: str
    arrived_at: float
    tenant_id: str
    key_id: str
    user_id: str
    service_class: str
    path: str
    end_user: str = ""
    public_model: str = ""
    version_id: str = ""
    deployment_id: str = ""
    endpoint_id: str = ""
    is_stream: bool = False
    price: Price = Price()
    dispatched_at: float | None = None
    first_token_at: float | None = None
    attempts: int = 0
    tags: dict[str, str] = {}
    workflow_id: str = ""
    wasted_tokens: int = 0
    spent_engine_s: float = 0.0

    def engine_ms(self, now: float) -> float | None:
        return None if self.dispatched_at is None else (self.spent_engine_s + now - self.dispatched_at) * 1000


class Records(Protocol):
    def append(self, record: UsageRecord) -> None: ...


class Meter:
    """Turns settlements into records, in the spool and in the running totals. `observers` see each record.

    `settled` is told of each settlement, its tokens and its cost, however the request ended.
    """

    def __init__(
        self,
        records: Records,
        *,
        gateway_id: str,
        boot_id: str,
        node_id: str,
        monotonic: Callable[[], float],
        unix_time: Callable[[], float],
        randomness: random.Random,
        observers: Sequence[Callable[[UsageRecord], None]] = (),
        settled: Callable[[object, int, int], None] | None = None,
    ) -> None:
        self._observers = observers
        self._settled = settled
        self._records = records
        self._gateway_id = gateway_id
        self._boot_id = boot_id
        self._node_id = node_id
        self._monotonic = monotonic
        self._unix_time = unix_time
        self._randomness = randomness
        self._sequence = 0
        self._ttfts: deque[tuple[float, float]] = deque(maxlen=_TTFTS_MAX)
        self.requests_total = 0
        self.refused_total = 0
        self.failed_total = 0
        self.input_tokens_total = 0
        self.output_tokens_total = 0

    def settle(self, request: Settlement, used: Used, outcome: Outcome, status: int, error_code: str = "") -> None:
        """Called exactly once per request, before the last byte of its answer is written."""
        now = self._monotonic()
        record = self._record(request, used, now, outcome=outcome, status=status, error_code=error_code)
        self._records.append(record)
        self._count(record, now)
        if self._settled is not None:
            self._settled(request, record.input_tokens + record.output_tokens, record.cost_pico_usd)
        for observe in self._observers:
            observe(record)

    def ttfts_ms(self) -> list[float]:
        """Sorted, of the requests whose first token came in the last 60 s."""
        oldest = self._monotonic() - TTFT_WINDOW_S
        while self._ttfts and self._ttfts[0][0] < oldest:
            self._ttfts.popleft()
        return sorted(ttft_ms for _, ttft_ms in self._ttfts)

    def _record(
        self, request: Settlement, used: Used, now: float, *, outcome: Outcome, status: int, error_code: str
    ) -> UsageRecord:
        total_s = now - request.arrived_at
        arrived_at = self._unix_time() - total_s
        self._sequence += 1
        return UsageRecord(
            record_id=uuid7(arrived_at, self._randomness.getrandbits(74)),
            gateway_id=self._gateway_id,
            boot_id=self._boot_id,
            sequence=self._sequence,
            request_id=request.request_id,
            arrived_at=arrived_at,
            tenant_id=request.tenant_id,
            key_id=request.key_id,
            user_id=request.user_id,
            end_user=request.end_user,
            path=request.path,
            public_model=request.public_model,
            version_id=request.version_id,
            deployment_id=request.deployment_id,
            endpoint_id=request.endpoint_id,
            node_id=self._node_id,
            service_class=request.service_class,
            is_stream=request.is_stream,
            status=status,
            outcome=outcome,
            usage_source=used.source,
            input_tokens=used.input_tokens,
            cached_input_tokens=used.cached_input_tokens,
            output_tokens=used.output_tokens,
            reasoning_tokens=used.reasoning_tokens,
            queue_ms=_elapsed_ms(request.arrived_at, request.dispatched_at),
            ttft_ms=_elapsed_ms(request.arrived_at, request.first_token_at),
            total_ms=total_s * 1000,
            cost_pico_usd=cost_pico_usd(used, request.price),
            attempts=request.attempts,
            error_code=error_code,
            tags=request.tags,
            workflow_id=request.workflow_id,
            wasted_tokens=request.wasted_tokens,
            engine_ms=request.engine_ms(now),
        )

    def _count(self, record: UsageRecord, now: float) -> None:
        self.requests_total += 1
        self.refused_total += record.outcome == "refused"
        self.failed_total += record.outcome == "failed"
        self.input_tokens_total += record.input_tokens
        self.output_tokens_total += record.output_tokens
        if record.ttft_ms is not None:
            self._ttfts.append((now, record.ttft_ms))


def _elapsed_ms(start_at: float, end_at: float | None) -> float | None:
    return None if end_at is None else (end_at - start_at) * 1000

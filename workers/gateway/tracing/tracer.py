"""What the gateway calls: once when a request begins, once when it goes to the scheduler, once when it is recorded."""

from collections.abc import Callable

from msgspec import Struct

from workers.contracts.usage import UsageRecord
from workers.gateway.tracing.context import TraceContext, begin_trace, continue_trace
from workers.gateway.tracing.exporter import Finished

MAX_OPEN = 100_000


class _Open(Struct):
    context: TraceContext
    arrived_at: float
    submitted_at: float


class Tracer:
    """`ratio` is the share of those traces that begin here which are sent. Times are on the gateway's own clock."""

    def __init__(
        self,
        send: Callable[[Finished], None],
        *,
        ratio: float,
        monotonic: Callable[[], float],
        random_bits: Callable[[int], int],
    ) -> None:
        self._send = send
        self._ratio = ratio
        self._monotonic = monotonic
        self._random_bits = random_bits
        self._open: dict[str, _Open] = {}

    def begin(self, record_id: str, trace_parent: bytes, *, is_new: bool, arrived_at: float) -> None:
        """`trace_parent` is the client's, or one that was made for it."""
        if is_new:
            context = begin_trace(trace_parent, self._ratio, self._random_bits)
        else:
            context = continue_trace(trace_parent, self._random_bits)
        if len(self._open) >= MAX_OPEN:  # a request that never ends, or one whose record was given up
            del self._open[next(iter(self._open))]
        self._open[record_id] = _Open(context, arrived_at, self._monotonic())

    def forget(self, record_id: str) -> None:
        """The gateway of another node tells the rest."""
        self._open.pop(record_id, None)

    def parent_for_engine(self, record_id: str) -> bytes:
        """Called when the request goes to the scheduler."""
        found = self._open[record_id]
        found.submitted_at = self._monotonic()
        return found.context.for_engine

    def observe(self, record: UsageRecord) -> None:
        found = self._open.pop(record.record_id, None)
        if found is not None and found.context.is_sampled:
            received_ms = (found.submitted_at - found.arrived_at) * 1000
            self._send(Finished(record, found.context, received_ms))

"""Which trace a request belongs to (https://www.w3.org/TR/trace-context/)."""

from collections.abc import Callable

from msgspec import Struct

SAMPLED = 1


class TraceContext(Struct, frozen=True):
    """Ids are lower-case hex. `parent_id` is the client's span, "" where we began the trace.

    `request_id` is that of our span for the request, `dispatch_id` that of its time on engines: their parent.
    """

    trace_id: str
    parent_id: str
    request_id: str
    dispatch_id: str
    is_sampled: bool

    @property
    def for_engine(self) -> bytes:
        return f"00-{self.trace_id}-{self.dispatch_id}-{int(self.is_sampled):02x}".encode()


def continue_trace(trace_parent: bytes, random_bits: Callable[[int], int]) -> TraceContext:
    """Whoever began the trace has decided whether it is sampled."""
    _, trace_id, parent_id, flags = trace_parent.decode().split("-")[:4]
    return TraceContext(
        trace_id, parent_id, new_span_id(random_bits), new_span_id(random_bits), bool(int(flags, 16) & SAMPLED)
    )


def begin_trace(trace_parent: bytes, ratio: float, random_bits: Callable[[int], int]) -> TraceContext:
    """With the id of a new `trace_parent`, from which follows whether it is sampled, as in OpenTelemetry's samplers."""
    trace_id = trace_parent.decode().split("-")[1]
    is_sampled = int(trace_id[16:], 16) < ratio * (1 << 64)
    return TraceContext(trace_id, "", new_span_id(random_bits), new_span_id(random_bits), is_sampled)


def new_span_id(random_bits: Callable[[int], int]) -> str:
    return f"{random_bits(64) or 1:016x}"

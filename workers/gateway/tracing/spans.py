"""From a usage record to spans, as OTLP's JSON has them (https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding).

    chat demo-chat     from arrival to the last byte
      receive          reading and understanding the request
      queue            waiting for an engine
      dispatch         on engines; parent of their own spans
        first_token    until the first token
        generate       until the last byte

Never what was asked or answered, nor a key. Attributes are those of OpenTelemetry's GenAI conventions where it has any.
"""

from typing import Any

from workers.contracts.usage import UsageRecord
from workers.gateway.apis.paths import ENGINE_PATHS
from workers.gateway.tracing.context import TraceContext, new_span_id

Span = dict[str, Any]
Attributes = dict[str, str | int | bool | float | None]

INTERNAL, SERVER, CLIENT = 1, 2, 3
STATUS_ERROR = 2
SERVER_ERROR = 500
_OPERATIONS = {path.decode(): engine_path.operation for path, engine_path in ENGINE_PATHS.items()}


def spans_of(record: UsageRecord, context: TraceContext, received_ms: float) -> list[Span]:
    """`received_ms` after its arrival it was handed to the scheduler."""
    lines = _Lines(record, context)
    end_ms = record.total_ms
    queue_end_ms = record.queue_ms if record.queue_ms is not None else end_ms
    received_ms = min(received_ms, queue_end_ms)
    spans = [_request_span(lines, record, context), lines.span("receive", INTERNAL, 0, received_ms)]
    if record.endpoint_id or record.outcome == "refused":
        spans.append(lines.span("queue", INTERNAL, received_ms, queue_end_ms))
    if record.queue_ms is not None:
        spans += _dispatch_spans(lines, record, context, queue_end_ms)
    return spans


class _Lines:
    """Where spans of one request stand in time and in the tree. Ids of the lesser ones follow from the first."""

    def __init__(self, record: UsageRecord, context: TraceContext) -> None:
        self._context = context
        self._arrived_ns = int(record.arrived_at * 1e9)
        self._number = int(context.request_id, 16)

    def span(self, name: str, kind: int, start_ms: float, end_ms: float, **changes: Any) -> Span:
        self._number = (self._number + 1) % (1 << 64)
        span = {
            "traceId": self._context.trace_id,
            "spanId": new_span_id(lambda _: self._number),
            "parentSpanId": self._context.request_id,
            "name": name,
            "kind": kind,
            "startTimeUnixNano": str(self._arrived_ns + int(start_ms * 1e6)),
            "endTimeUnixNano": str(self._arrived_ns + int(max(start_ms, end_ms) * 1e6)),
        }
        return span | changes


def _request_span(lines: _Lines, record: UsageRecord, context: TraceContext) -> Span:
    operation = _OPERATIONS.get(record.path, "unknown")
    name = f"{operation} {record.public_model}".strip()
    is_error = record.status >= SERVER_ERROR or record.outcome == "failed"
    return lines.span(
        name,
        SERVER,
        0,
        record.total_ms,
        spanId=context.request_id,
        parentSpanId=context.parent_id,
        attributes=attribute_list(_request_attributes(record, operation)),
        status={"code": STATUS_ERROR, "message": record.error_code} if is_error else {},
    )


def _dispatch_spans(lines: _Lines, record: UsageRecord, context: TraceContext, start_ms: float) -> list[Span]:
    attributes: Attributes = {"tokenyard.endpoint.id": record.endpoint_id, "tokenyard.attempts": record.attempts}
    dispatch = lines.span(
        "dispatch", CLIENT, start_ms, record.total_ms, spanId=context.dispatch_id, attributes=attribute_list(attributes)
    )
    if record.ttft_ms is None:
        return [dispatch]
    inside = {"parentSpanId": context.dispatch_id}
    return [
        dispatch,
        lines.span("first_token", INTERNAL, start_ms, record.ttft_ms, **inside),
        lines.span("generate", INTERNAL, record.ttft_ms, record.total_ms, **inside),
    ]


def _request_attributes(record: UsageRecord, operation: str) -> Attributes:
    is_used = record.usage_source != "none"
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "tokenyard",
        "gen_ai.request.model": record.public_model or None,
        "gen_ai.usage.input_tokens": record.input_tokens if is_used else None,
        "gen_ai.usage.output_tokens": record.output_tokens if is_used else None,
        "gen_ai.usage.cache_read.input_tokens": record.cached_input_tokens if is_used else None,
        "http.request.method": "POST",
        "http.response.status_code": record.status,
        "url.path": record.path,
        "error.type": record.error_code or (str(record.status) if record.status >= 400 else None),  # noqa: PLR2004 - HTTP
        "tokenyard.request.id": record.request_id,
        "tokenyard.record.id": record.record_id,
        "tokenyard.tenant.id": record.tenant_id,
        "tokenyard.service_class": record.service_class,
        "tokenyard.version.id": record.version_id or None,
        "tokenyard.outcome": record.outcome,
        "tokenyard.usage_source": record.usage_source,
        "tokenyard.is_stream": record.is_stream,
    }


def attribute_list(attributes: Attributes) -> list[dict[str, Any]]:
    """None is left out."""
    return [{"key": key, "value": _value(value)} for key, value in attributes.items() if value is not None]


def _value(value: str | float | bool) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    return {"stringValue": value} if isinstance(value, str) else {"doubleValue": value}

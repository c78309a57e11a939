"""From what is known of one request to its usage record.

The gateway that served it settles it; when that has died, whoever finds its journal does
(workers/contracts/salvage.py).
"""

from hashlib import sha256

from msgspec.structs import replace

from workers.contracts import pricing
from workers.contracts.ids import uuid7
from workers.contracts.settlement import Origin, Settlement, Used
from workers.contracts.snapshot import Price
from workers.contracts.usage import Outcome, UsageRecord

_CLIENT_LEFT = 499


def cost_pico_usd(used: Used, price: Price) -> int:
    return pricing.cost_pico_usd(
        price,
        input_tokens=used.input_tokens,
        cached_input_tokens=used.cached_input_tokens,
        output_tokens=used.output_tokens,
        is_served=used.source != "none",
    )


def record_of(
    request: Settlement,
    used: Used,
    origin: Origin,
    *,
    sequence: int,
    now: float,
    outcome: Outcome,
    status: int,
    error_code: str,
) -> UsageRecord:
    """`now` is the end of the request, on the settlement's monotonic clock."""
    return UsageRecord(
        record_id=request.record_id,
        gateway_id=origin.gateway_id,
        boot_id=origin.boot_id,
        sequence=sequence,
        request_id=request.request_id,
        arrived_at=request.arrived_unix_s,
        tenant_id=request.tenant_id,
        key_id=request.key_id,
        user_id=request.user_id,
        end_user=request.end_user,
        path=request.path,
        public_model=request.public_model,
        version_id=request.version_id,
        deployment_id=request.deployment_id,
        endpoint_id=request.endpoint_id,
        node_id=origin.node_id,
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
        total_ms=(now - request.arrived_at) * 1000,
        cost_pico_usd=cost_pico_usd(used, request.price),
        attempts=request.attempts,
        error_code=error_code,
        tags=request.tags,
        workflow_id=request.workflow_id,
        wasted_tokens=request.wasted_tokens,
        engine_ms=_engine_ms(request, now),
    )


def unheard(record: UsageRecord, error_code: str = "not_delivered") -> UsageRecord:
    """Of an answer that nobody got; its id is left to the answer that somebody gets."""
    return replace(unpaid(record, error_code), record_id=unheard_id(record.record_id, record.arrived_at))


def unpaid(record: UsageRecord, error_code: str) -> UsageRecord:
    """The same of an answer that nobody got, and nobody pays for."""
    return replace(
        record,
        status=_CLIENT_LEFT,
        outcome="client_left",
        error_code=error_code,
        usage_source="none",
        input_tokens=0,
        cached_input_tokens=0,
        output_tokens=0,
        reasoning_tokens=0,
        cost_pico_usd=0,
        wasted_tokens=record.wasted_tokens + record.output_tokens,
    )


def unheard_id(record_id: str, arrived_at: float) -> str:
    """The same each time, so that what is salvaged twice is known by it."""
    return uuid7(arrived_at, int.from_bytes(sha256(record_id.encode()).digest()[:10], "big"))


def _elapsed_ms(start_at: float, end_at: float | None) -> float | None:
    return None if end_at is None else (end_at - start_at) * 1000


def _engine_ms(request: Settlement, now: float) -> float | None:
    if request.dispatched_at is None:
        return None
    now_s = now - request.on_engine_since if request.on_engine_since is not None else 0.0
    return (request.spent_engine_s + now_s) * 1000

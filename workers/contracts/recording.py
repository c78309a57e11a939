"""From what is known of one request to its usage record.

The gateway that served it settles it; when that has died, whoever finds its journal does
(workers/contracts/salvage.py).
"""

from workers.contracts import pricing
from workers.contracts.settlement import Origin, Settlement, Used
from workers.contracts.snapshot import Price
from workers.contracts.usage import Outcome, UsageRecord


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


def _elapsed_ms(start_at: float, end_at: float | None) -> float | None:
    return None if end_at is None else (end_at - start_at) * 1000


def _engine_ms(request: Settlement, now: float) -> float | None:
    if request.dispatched_at is None:
        return None
    now_s = now - request.on_engine_since if request.on_engine_since is not None else 0.0
    return (request.spent_engine_s + now_s) * 1000

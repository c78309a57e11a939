"""What the gateway believes of its engines, tenants and models, for the console: estimates with their error."""

from heapq import nlargest
from itertools import islice

from workers.contracts.telemetry import (
    EndpointEstimate,
    LengthEstimate,
    PromptEstimate,
    SchedulerReport,
    TenantQueue,
)
from workers.gateway.attempts.engines import Engine
from workers.gateway.driving.driver import Driver
from workers.scheduling.endpoint_spec import BreakerState, EndpointState

MAX_TENANTS = 50
MAX_ENDPOINTS = 128
MAX_ESTIMATES = 50
BREAKER_WORDS: dict[BreakerState, str] = {
    "closed": "serving",
    "paused": "paused",
    "open": "suspended",
    "half_open": "probed",
}


def build_scheduler_report(driver: Driver, now: float) -> SchedulerReport:
    lengths = islice(reversed(driver.estimates.lengths.values()), MAX_ESTIMATES)
    prompts = islice(reversed(driver.estimates.prompts.items()), MAX_ESTIMATES)
    engines = {engine.endpoint.endpoint_id: engine for engine in driver.known_engines}
    states = islice(driver.scheduler.endpoint_states(now), MAX_ENDPOINTS)
    return SchedulerReport(
        tenants=_tenant_queues(driver),
        endpoints=[_endpoint(engines[state.endpoint_id], state) for state in states],
        lengths=[
            LengthEstimate(
                tenant_id=length.tenant_id,
                version_id=length.version_id,
                tokens=length.tokens,
                error=length.error,
                answers=length.count,
            )
            for length in lengths
        ],
        prompts=[
            PromptEstimate(
                version_id=version_id, bytes_per_token=1 / max(line.b, 0.01), error=line.error, requests=line.count
            )
            for version_id, line in prompts
        ],
    )


def _tenant_queues(driver: Driver) -> list[TenantQueue]:
    queued, running = driver.count_by_tenant()
    most = nlargest(MAX_TENANTS, (queued + running).items(), key=lambda item: item[1])
    return [
        TenantQueue(
            tenant_id=tenant_id,
            service_class=service_class,
            queued=queued[tenant_id, service_class],
            running=running[tenant_id, service_class],
        )
        for (tenant_id, service_class), _ in most
    ]


def _endpoint(engine: Engine, state: EndpointState) -> EndpointEstimate:
    has_prefilled, has_decoded = state.prefill_observations > 0, state.step_s is not None
    return EndpointEstimate(
        endpoint_id=state.endpoint_id,
        version_id=state.version_id,
        state=_word_of(state),
        running=state.running,
        silent_s=state.silent_s,
        cost_profile=engine.endpoint.shape.cost_profile,
        prefill_tokens_per_s=state.prefill_tokens_per_s,
        prefill_error=state.prefill_error if has_prefilled else None,
        step_ms=None if state.step_s is None else 1000 * state.step_s,
        step_error=state.step_error if has_decoded else None,
        kv_used_ratio=state.kv_usage,
        kv_capacity_tokens=engine.kv_capacity_tokens or engine.endpoint.shape.kv_capacity_tokens,
        report_age_s=state.report_age_s,
        cache_state=engine.cache_state,
    )


def _word_of(state: EndpointState) -> str:
    if state.is_stalled:
        return "stalled"
    if state.is_draining:
        return "draining"
    if state.warmth != "warm":
        return state.warmth
    return BREAKER_WORDS[state.breaker]

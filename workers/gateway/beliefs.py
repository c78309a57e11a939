"""What the gateway believes of its engines, tenants and models, for the console: estimates with their error."""

from collections import Counter
from heapq import nlargest
from itertools import islice

from workers.contracts.telemetry import (
    EndpointEstimate,
    LengthEstimate,
    PromptEstimate,
    SchedulerReport,
    TenantQueue,
)
from workers.gateway.driver import Driver
from workers.gateway.engines import Engine
from workers.gateway.lines import Line

MAX_TENANTS = 50
MAX_ENDPOINTS = 128
MAX_ESTIMATES = 50


def build_scheduler_report(driver: Driver, now: float) -> SchedulerReport:
    lengths = islice(reversed(driver.estimates.lengths.values()), MAX_ESTIMATES)
    prompts = islice(reversed(driver.estimates.prompts.items()), MAX_ESTIMATES)
    running = driver.count_running()
    return SchedulerReport(
        tenants=_tenant_queues(driver),
        endpoints=[_endpoint(engine, running, now) for engine in driver.engines[:MAX_ENDPOINTS]],
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


def _endpoint(engine: Engine, running: Counter[str], now: float) -> EndpointEstimate:
    endpoint, pace, reading = engine.endpoint, engine.pace, engine.reading
    return EndpointEstimate(
        endpoint_id=endpoint.endpoint_id,
        version_id=endpoint.version_id,
        state="stalled" if engine.is_stalled else "draining" if endpoint.is_draining else "open",
        running=running[endpoint.endpoint_id],
        cost_profile=endpoint.shape.cost_profile,
        is_known=engine.is_paced,
        prefill_tokens_per_s=pace.prefill_tokens_per_s,
        prefill_error=_error(pace.to_first),
        step_ms=None if pace.step_s is None else 1000 * pace.step_s,
        step_error=_error(pace.step),
        kv_used_ratio=reading.kv_used_ratio if reading is not None else None,
        kv_capacity_tokens=engine.kv_capacity_tokens or endpoint.shape.kv_capacity_tokens,
        report_age_s=None if engine.read_at is None else now - engine.read_at,
    )


def _error(line: Line) -> float | None:
    return line.error if line.is_trusted else None

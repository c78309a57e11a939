"""What telemetry says of a gateway."""

from workers.contracts.telemetry import GatewayReport
from workers.gateway.driving.driver import Driver
from workers.gateway.observing.beliefs import build_scheduler_report
from workers.gateway.records.metering import Meter
from workers.gateway.snapshots.directory import Directory


def build_report(
    *,
    gateway_id: str,
    boot_id: str,
    directory: Directory | None,
    driver: Driver,
    meter: Meter,
    snapshot_error: str,
    spool_error: str,
    limits_error: str,
    is_stopping: bool,
    now: float,
) -> GatewayReport:
    ttfts_ms = meter.ttfts_ms()
    class_names = directory.class_names if directory is not None else {}
    queued = driver.scheduler.queued_by_rank()
    endpoints = driver.endpoints
    return GatewayReport(
        gateway_id=gateway_id,
        boot_id=boot_id,
        active_generation=directory.snapshot.generation if directory is not None else 0,
        snapshot_error=snapshot_error,
        spool_error=spool_error,
        limits_error=limits_error,
        running_requests=driver.scheduler.running_total(),
        queued_requests=driver.scheduler.queued_total(),
        queued_by_class={name: queued.get(rank, 0) for rank, name in class_names.items()},
        requests_total=meter.requests_total,
        refused_total=meter.refused_total,
        failed_total=meter.failed_total,
        input_tokens_total=meter.input_tokens_total,
        output_tokens_total=meter.output_tokens_total,
        ttft_ms_p50=percentile(ttfts_ms, 0.50),
        ttft_ms_p95=percentile(ttfts_ms, 0.95),
        endpoints_up=sum(not endpoint.is_draining for endpoint in endpoints),
        endpoints_total=len(endpoints),
        is_stopping=is_stopping,
        scheduler=build_scheduler_report(driver, now),
    )


def percentile(ascending: list[float], share: float) -> float | None:
    """Nearest rank; None of nothing."""
    if not ascending:
        return None
    return ascending[min(int(share * len(ascending)), len(ascending) - 1)]

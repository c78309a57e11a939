"""What several processes say of themselves, as one gateway says it: pure.

Counters are added, and so are gauges that count something; of the others the worst is shown. What a process had
counted when it died stays in the sums, so that no counter ever goes back.
"""

from collections.abc import Iterable, Sequence
from heapq import nlargest

from msgspec import Struct, structs

from workers.contracts.telemetry import GatewayReport, SchedulerReport, TenantQueue
from workers.gateway.observing.beliefs import MAX_ENDPOINTS, MAX_ESTIMATES, MAX_TENANTS

_LARGEST = frozenset(
    (
        "tokenyard_gateway_limits_degraded",
        "tokenyard_gateway_is_stopping",
        "tokenyard_gateway_ttft_ms_p50",
        "tokenyard_gateway_ttft_ms_p95",
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
    )
)
_LEAST = frozenset(("tokenyard_gateway_active_generation",))
TOTALS = ("requests_total", "refused_total", "failed_total", "input_tokens_total", "output_tokens_total")


class Family(Struct):
    """Of one metric: the lines about it, and its samples by name and labels, as they are written."""

    kind: str = "untyped"
    about: str = ""
    samples: dict[str, float] = {}


def read_exposition(text: str) -> dict[str, Family]:
    """By name, in the order of the text. A sample follows the line that tells its kind."""
    families: dict[str, Family] = {}
    family = Family(samples={})
    for line in text.splitlines():
        if line.startswith("# "):
            _, word, name, rest = line.split(" ", 3)
            family = families.setdefault(name, Family(samples={}))
            if word == "TYPE":
                family.kind = rest
            else:
                family.about = rest
        elif line:
            sample, _, value = line.rpartition(" ")
            family.samples[sample] = float(value)
    return families


def merge_families(each: Iterable[dict[str, Family]]) -> dict[str, Family]:
    merged: dict[str, Family] = {}
    for families in each:
        for name, family in families.items():
            into = merged.setdefault(name, Family(family.kind, family.about, {}))
            for sample, value in family.samples.items():
                into.samples[sample] = _combined(name, into.samples.get(sample), value)
    return merged


def counted(families: dict[str, Family]) -> dict[str, Family]:
    """What of them only grows: what stays of a process that has died."""
    return {name: family for name, family in families.items() if family.kind in ("counter", "histogram")}


def write_exposition(families: dict[str, Family]) -> str:
    lines: list[str] = []
    for name, family in families.items():
        if family.about:
            lines.append(f"# HELP {name} {family.about}\n")
        lines.append(f"# TYPE {name} {family.kind}\n")
        lines += [f"{sample} {_number(value)}\n" for sample, value in family.samples.items()]
    return "".join(lines)


def merge_reports(
    gateway_id: str, boot_id: str, reports: Sequence[GatewayReport], gone: dict[str, int]
) -> GatewayReport:
    """`gone` are the TOTALS of processes that have died."""
    summed = {name: gone.get(name, 0) + sum(getattr(report, name) for report in reports) for name in TOTALS}
    return GatewayReport(
        gateway_id=gateway_id,
        boot_id=boot_id,
        active_generation=min((report.active_generation for report in reports), default=0),
        snapshot_error=_first(report.snapshot_error for report in reports),
        spool_error=_first(report.spool_error for report in reports),
        limits_error=_first(report.limits_error for report in reports),
        running_requests=sum(report.running_requests for report in reports),
        queued_requests=sum(report.queued_requests for report in reports),
        queued_by_class=_sum_by_name(report.queued_by_class for report in reports),
        ttft_ms_p50=_largest(report.ttft_ms_p50 for report in reports),
        ttft_ms_p95=_largest(report.ttft_ms_p95 for report in reports),
        spool_pending_records=sum(report.spool_pending_records for report in reports),
        endpoints_up=sum(report.endpoints_up for report in reports),
        endpoints_total=sum(report.endpoints_total for report in reports),
        is_stopping=any(report.is_stopping for report in reports),
        scheduler=_merge_schedulers([report.scheduler for report in reports]),
        **summed,
    )


def totals_of(report: GatewayReport) -> dict[str, int]:
    return {name: getattr(report, name) for name in TOTALS}


def add_totals(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    return {name: first.get(name, 0) + second.get(name, 0) for name in TOTALS}


def _merge_schedulers(reports: Sequence[SchedulerReport]) -> SchedulerReport:
    tenants: dict[tuple[str, str], TenantQueue] = {}
    for queue in (queue for report in reports for queue in report.tenants):
        known = tenants.get((queue.tenant_id, queue.service_class))
        tenants[queue.tenant_id, queue.service_class] = _added(known, queue) if known is not None else queue
    return SchedulerReport(
        tenants=nlargest(MAX_TENANTS, tenants.values(), key=lambda queue: queue.queued + queue.running),
        endpoints=[one for report in reports for one in report.endpoints][:MAX_ENDPOINTS],
        lengths=[one for report in reports for one in report.lengths][:MAX_ESTIMATES],
        prompts=[one for report in reports for one in report.prompts][:MAX_ESTIMATES],
    )


def _added(first: TenantQueue, second: TenantQueue) -> TenantQueue:
    return structs.replace(first, queued=first.queued + second.queued, running=first.running + second.running)


def _combined(name: str, first: float | None, second: float) -> float:
    if first is None:
        return second
    if name in _LARGEST:
        return max(first, second)
    return min(first, second) if name in _LEAST else first + second


def _sum_by_name(each: Iterable[dict[str, int]]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for counts in each:
        for name, count in counts.items():
            summed[name] = summed.get(name, 0) + count
    return summed


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")


def _largest(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)

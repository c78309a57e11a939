"""Rates from counters, and the picture of the fleet. Pure. None is unknown, which is never zero."""

from collections.abc import Sequence
from statistics import fmean

from msgspec import Struct, structs

from workers.contracts.telemetry import GatewayReport, NodeTelemetry

STALE_AFTER_S = 5.0
_LONGEST_HELD_BACK_S = 300.0
MAX_KEPT_DAYS = 90


class Rates(Struct, frozen=True, kw_only=True):
    """Per second, over the last few seconds."""

    requests_per_s: float | None = None
    failures_per_s: float | None = None
    input_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None


class NodeFrame(Struct, frozen=True, kw_only=True):
    """The newest telemetry of a node, when it came, and the rates that follow from it and the ones before."""

    received_at: float
    telemetry: NodeTelemetry
    rates: Rates = Rates()


class SeriesPoint(Struct, frozen=True, kw_only=True):
    """One second of the gateways that one process hears, for charts: what an Overview says of them."""

    at: float
    requests_per_s: float | None = None
    input_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None
    running_requests: int | None = None
    queued_requests: int | None = None
    ttft_ms_p50: float | None = None
    ttft_ms_p95: float | None = None


class Overview(Struct, frozen=True, kw_only=True):
    """The fleet now, over the nodes that are not stale. The TTFT percentiles are those of the slowest gateway."""

    at: float
    nodes_reporting: int
    nodes_stale: int
    engines_ready: int | None = None
    engines_total: int | None = None
    requests_per_s: float | None = None
    failures_per_s: float | None = None
    input_tokens_per_s: float | None = None
    output_tokens_per_s: float | None = None
    running_requests: int | None = None
    queued_requests: int | None = None
    queued_by_class: dict[str, int] = {}
    kv_used_ratio: float | None = None
    ttft_ms_p50: float | None = None
    ttft_ms_p95: float | None = None
    spool_pending_records: int | None = None


def rates_between(earlier: NodeFrame | None, later: NodeTelemetry, received_at: float) -> Rates:
    """Unknown across a restart of the gateway, when its counters began again, and without an earlier sample."""
    before = earlier.telemetry.gateway if earlier else None
    after = later.gateway
    if earlier is None or before is None or after is None or before.boot_id != after.boot_id:
        return Rates()
    elapsed_s = _elapsed_s(earlier, later, received_at)
    if elapsed_s <= 0:
        return Rates()
    return Rates(
        requests_per_s=_rate(before.requests_total, after.requests_total, elapsed_s),
        failures_per_s=_rate(_bad(before), _bad(after), elapsed_s),
        input_tokens_per_s=_rate(before.input_tokens_total, after.input_tokens_total, elapsed_s),
        output_tokens_per_s=_rate(before.output_tokens_total, after.output_tokens_total, elapsed_s),
    )


def _elapsed_s(earlier: NodeFrame, later: NodeTelemetry, received_at: float) -> float:
    """By the node's clock, as frames that a line held back come all at once; by ours where that one was set."""
    received_s = received_at - earlier.received_at
    sampled_s = later.sampled_at - earlier.telemetry.sampled_at
    return sampled_s if 0 < sampled_s < received_s + _LONGEST_HELD_BACK_S else received_s


def _bad(report: GatewayReport) -> int:
    return report.failed_total + report.refused_total


def _rate(before: int, after: int, elapsed_s: float) -> float | None:
    return (after - before) / elapsed_s if after >= before else None


def is_stale(frame: NodeFrame, now_s: float) -> bool:
    return now_s - frame.received_at > STALE_AFTER_S


def point_of(overview: Overview) -> SeriesPoint:
    return SeriesPoint(**{name: getattr(overview, name) for name in SeriesPoint.__struct_fields__})


def overview_of(frames: Sequence[NodeFrame], now_s: float) -> Overview:
    fresh = [frame for frame in frames if not is_stale(frame, now_s)]
    if not fresh:
        return Overview(at=now_s, nodes_reporting=0, nodes_stale=len(frames))
    gateways = [frame.telemetry.gateway for frame in fresh if frame.telemetry.gateway]
    engines = [replica for frame in fresh for replica in frame.telemetry.replicas if not replica.follows]
    kv_used = [replica.kv_used_ratio for replica in engines if replica.kv_used_ratio is not None]
    return Overview(
        at=now_s,
        nodes_reporting=len(fresh),
        nodes_stale=len(frames) - len(fresh),
        engines_ready=sum(replica.state == "ready" for replica in engines),
        engines_total=len(engines),
        requests_per_s=_sum_known([frame.rates.requests_per_s for frame in fresh]),
        failures_per_s=_sum_known([frame.rates.failures_per_s for frame in fresh]),
        input_tokens_per_s=_sum_known([frame.rates.input_tokens_per_s for frame in fresh]),
        output_tokens_per_s=_sum_known([frame.rates.output_tokens_per_s for frame in fresh]),
        running_requests=sum(gateway.running_requests for gateway in gateways) if gateways else None,
        queued_requests=sum(gateway.queued_requests for gateway in gateways) if gateways else None,
        queued_by_class=_queued_by_class(gateways),
        kv_used_ratio=fmean(kv_used) if kv_used else None,
        ttft_ms_p50=_max_known([gateway.ttft_ms_p50 for gateway in gateways]),
        ttft_ms_p95=_max_known([gateway.ttft_ms_p95 for gateway in gateways]),
        spool_pending_records=sum(gateway.spool_pending_records for gateway in gateways) if gateways else None,
    )


def _queued_by_class(gateways: Sequence[GatewayReport]) -> dict[str, int]:
    queued: dict[str, int] = {}
    for gateway in gateways:
        for name, count in gateway.queued_by_class.items():
            queued[name] = queued.get(name, 0) + count
    return queued


def _sum_known(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _max_known(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def with_tails(telemetry: NodeTelemetry, previous: NodeFrame | None) -> NodeTelemetry:
    """An engine that is well tells the end of its log when that has changed; until then it is what it was."""
    if previous is None or not telemetry.replicas:
        return telemetry
    tails = {each.replica_id: each.log_tail for each in previous.telemetry.replicas if each.log_tail}
    if not tails:
        return telemetry
    replicas = [
        each if each.log_tail else structs.replace(each, log_tail=tails.get(each.replica_id, []))
        for each in telemetry.replicas
    ]
    return structs.replace(telemetry, replicas=replicas)

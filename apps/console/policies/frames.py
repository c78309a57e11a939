"""The live frame: every figure the console shows live, by key, already in words. Pure.

A value is `{"text", "unit"?, "title"?, "state"?, "is_stale"?}`; `samples` are the plain numbers that charts plot.
Keys: a figure's name, or `<entity>.<id>.<figure>`.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from msgspec import structs

from apps.console.policies.measures import UNKNOWN, measure
from apps.console.policies.states import level_of
from apps.telemetry.policies import NodeFrame, Overview, SeriesPoint, is_stale
from workers.contracts.telemetry import AcceleratorReport, ReplicaReport

Value = dict[str, Any]
SERIES = (
    "requests_per_s",
    "input_tokens_per_s",
    "output_tokens_per_s",
    "running_requests",
    "queued_requests",
    "ttft_ms_p50",
    "ttft_ms_p95",
)
RATES = ("requests_per_s", "input_tokens_per_s", "output_tokens_per_s")
MEAN_OVER_S = 10
_WORST_OF = {"ttft_ms_p50", "ttft_ms_p95"}
NO_FIRST_TOKEN = "no first token in the last 60 s"  # noqa: S105 - not a secret
NOT_REPORTED = "the engine does not report it"
SILENT = "nothing has been heard of it"


def figure(value: float | None, unit: str, reason: str = SILENT) -> Value:
    if value is None:
        return {"text": UNKNOWN, "title": reason}
    shown = measure(value, unit)
    return {"text": shown.text, "unit": shown.unit, "title": shown.exact}


def word(text: str, *, title: str = "", is_stale: bool = False) -> Value:
    return {"text": text.replace("_", " "), "state": level_of(text), "title": title, "is_stale": is_stale}


def total(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def overview_values(
    overview: Overview, *, node_count: int, class_names: Sequence[str], ttft_slo_ms: int | None
) -> dict[str, Value]:
    tokens_per_s = total([overview.input_tokens_per_s, overview.output_tokens_per_s])
    return {
        "requests_per_s": figure(overview.requests_per_s, "requests_per_s"),
        "tokens_per_s": figure(tokens_per_s, "tokens_per_s"),
        "running": figure(overview.running_requests, "requests"),
        "running_context": {"text": _sentence("KV blocks used", figure(overview.kv_used_ratio, "ratio", NOT_REPORTED))},
        "queued": figure(overview.queued_requests, "requests"),
        "queued_context": {"text": _by_class(overview, class_names)},
        "ttft_p95": figure(overview.ttft_ms_p95, "ms", NO_FIRST_TOKEN),
        "ttft_context": {"text": _ttft_context(overview, ttft_slo_ms)},
        "engines": figure(overview.engines_ready, "count"),
        "engines_context": {"text": _of_total(overview.engines_total, "that run")},
        "nodes": figure(overview.nodes_reporting, "count"),
        "nodes_context": {"text": f"of {node_count}, heard in the last 5 s"},
    }


def _sentence(name: str, value: Value) -> str:
    return f"{name} {value['text']} {value.get('unit', '')}".strip()


def _by_class(overview: Overview, class_names: Sequence[str]) -> str:
    """In the order in which classes are served."""
    if overview.queued_requests is None:
        return "by class: unknown"
    return " · ".join(f"{name} {overview.queued_by_class.get(name, 0):,}" for name in class_names)


def _ttft_context(overview: Overview, ttft_slo_ms: int | None) -> str:
    p50 = figure(overview.ttft_ms_p50, "ms", NO_FIRST_TOKEN)
    slo = figure(ttft_slo_ms, "ms")
    return f"{_sentence('p50', p50)} · {_sentence('SLO', slo)} · 60 s"


def _of_total(count: int | None, suffix: str) -> str:
    return "of an unknown number" if count is None else f"of {count:,} {suffix}"


def node_values(*, node_id: str, state: str, frame: NodeFrame | None, now_s: float) -> dict[str, Value]:
    gateway = frame.telemetry.gateway if frame else None
    engines = frame.telemetry.replicas if frame else None
    stale = frame is None or is_stale(frame, now_s)
    values = {
        "state": word(state, is_stale=stale),
        "engines": _ready_of(engines),
        "running": figure(gateway.running_requests if gateway else None, "count"),
        "queued": figure(gateway.queued_requests if gateway else None, "count"),
        "generation": figure(gateway.active_generation if gateway else None, "count"),
        "spool": figure(gateway.spool_pending_records if gateway else None, "count"),
        "age": _age(frame, now_s),
    }
    return {f"node.{node_id}.{name}": {**value, "is_stale": stale} for name, value in values.items()}


def _ready_of(engines: Sequence[ReplicaReport] | None) -> Value:
    if engines is None:
        return {"text": UNKNOWN, "title": SILENT}
    return {"text": f"{sum(engine.state == 'ready' for engine in engines)} of {len(engines)}"}


def _age(frame: NodeFrame | None, now_s: float) -> Value:
    if frame is None:
        return {"text": UNKNOWN, "title": SILENT}
    return {"text": f"{max(0, round(now_s - frame.received_at))} s ago"}


def replica_values(
    *, replica_id: str, state: str, detail: str, report: ReplicaReport | None, is_old: bool
) -> dict[str, Value]:
    values = {
        "state": word(state, title=detail),
        "running": figure(report.running_requests if report else None, "count", NOT_REPORTED),
        "waiting": figure(report.waiting_requests if report else None, "count", NOT_REPORTED),
        "kv": figure(report.kv_used_ratio if report else None, "ratio", NOT_REPORTED),
    }
    return {f"replica.{replica_id}.{name}": {**value, "is_stale": is_old} for name, value in values.items()}


def accelerator_values(accelerator_id: str, report: AcceleratorReport | None) -> dict[str, Value]:
    values = {
        "memory": figure(report.memory_used_bytes if report else None, "bytes", "not reported"),
        "busy": figure(report.utilisation_ratio if report else None, "ratio", "not reported"),
        "temperature": figure(report.temperature_c if report else None, "celsius", "not reported"),
        "power": figure(report.power_w if report else None, "watts", "not reported"),
    }
    return {f"accelerator.{accelerator_id}.{name}": value for name, value in values.items()}


def smoothed(overview: Overview, recent: Mapping[str, Any]) -> Overview:
    """Rates as means over the last seconds, which `recent` is the history of; what is unknown stays so."""
    known = [name for name in RATES if recent["at"] and getattr(overview, name) is not None]
    return structs.replace(overview, **{name: recent["series"][name][-1] for name in known})


def samples_of(overview: Overview) -> dict[str, float | None]:
    return {name: getattr(overview, name) for name in SERIES}


def history_of(points: Sequence[SeriesPoint]) -> dict[str, Any]:
    """What processes told of each whole second: sums, trailing means of rates, percentiles of the slowest."""
    by_second: dict[int, list[SeriesPoint]] = {}
    for point in points:
        by_second.setdefault(int(point.at), []).append(point)
    seconds = sorted(by_second)
    combined = {name: [_combined(by_second[at], name) for at in seconds] for name in SERIES}
    return {"at": seconds, "series": combined | {name: trailing_means(combined[name]) for name in RATES}}


def trailing_means(values: Sequence[float | None]) -> list[float | None]:
    """Each value as the mean of the known ones of the last seconds; a gap stays a gap."""
    means: list[float | None] = []
    for index, value in enumerate(values):
        window = [each for each in values[max(0, index + 1 - MEAN_OVER_S) : index + 1] if each is not None]
        means.append(None if value is None else fmean(window))
    return means


def _combined(points: Sequence[SeriesPoint], name: str) -> float | None:
    values: list[float | None] = [getattr(point, name) for point in points]
    known = [value for value in values if value is not None]
    if not known:
        return None
    return max(known) if name in _WORST_OF else sum(known)

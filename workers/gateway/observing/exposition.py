"""Metrics as Prometheus text (format 0.0.4)."""

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from workers.contracts.telemetry import GatewayReport
from workers.gateway.apis.paths import ENGINE_PATHS
from workers.gateway.observing.metrics import Histogram, RequestMetrics, Series, SpanCounts

CONTENT_TYPE = "text/plain; version=0.0.4"
UNKNOWN_MODEL = "unknown"

Labels = dict[str, str]
Labelled = list[tuple[Labels, Series]]

_OPERATIONS = {path.decode(): engine_path.operation for path, engine_path in ENGINE_PATHS.items()}
# Names of OpenTelemetry's GenAI conventions, as its own exporter writes them for Prometheus.
_GEN_AI: dict[str, tuple[str, Callable[[Series], Histogram]]] = {
    "gen_ai_server_request_duration_seconds": ("From arrival to the last byte.", lambda s: s.duration_ms),
    "gen_ai_server_time_to_first_token_seconds": ("From arrival to the first token.", lambda s: s.ttft_ms),
    "gen_ai_server_time_per_output_token_seconds": ("Between tokens after the first.", lambda s: s.tpot_ms),
}
# vLLM's names, by model alone, so that boards made for engines show a gateway.
_VLLM: dict[str, tuple[str, Callable[[Series], Histogram]]] = {
    "vllm:e2e_request_latency_seconds": ("From arrival to the last byte.", lambda s: s.duration_ms),
    "vllm:time_to_first_token_seconds": ("From arrival to the first token.", lambda s: s.ttft_ms),
    "vllm:request_time_per_output_token_seconds": ("Between tokens after the first.", lambda s: s.tpot_ms),
    "vllm:inter_token_latency_seconds": ("The same, a request's mean.", lambda s: s.tpot_ms),
    "vllm:request_queue_time_seconds": ("From arrival to an engine.", lambda s: s.queue_ms),
    "vllm:request_prompt_tokens": ("Input tokens of a request.", lambda s: s.input_tokens),
    "vllm:request_generation_tokens": ("Output tokens of a request.", lambda s: s.output_tokens),
    "vllm:request_max_num_generation_tokens": ("The same.", lambda s: s.output_tokens),
}
_VLLM_TOTALS: dict[str, tuple[str, Callable[[Series], float]]] = {
    "vllm:prompt_tokens_total": ("Input tokens.", lambda s: int(s.input_tokens.total)),
    "vllm:generation_tokens_total": ("Output tokens.", lambda s: int(s.output_tokens.total)),
    "vllm:prefix_cache_queries_total": ("Input tokens.", lambda s: int(s.input_tokens.total)),
    "vllm:prefix_cache_hits_total": ("Those that were cached.", lambda s: s.cached_input_tokens),
    "vllm:request_prefill_time_seconds_sum": (
        "From an engine to the first token.",
        lambda s: s.prefill_ms_total / 1000,
    ),
    "vllm:request_prefill_time_seconds_count": ("Requests of that.", lambda s: sum(s.ttft_ms.counts)),
    "vllm:request_decode_time_seconds_sum": ("From the first token on.", lambda s: s.decode_ms_total / 1000),
    "vllm:request_decode_time_seconds_count": ("Requests of that.", lambda s: sum(s.ttft_ms.counts)),
}
# What vLLM calls an end; whether it was for its length a gateway does not look.
_FINISHED = {"completed": "stop", "client_left": "abort", "failed": "error"}
# What the series tell with more labels.
_TOLD_BY_SERIES = frozenset(
    ("requests_total", "refused_total", "failed_total", "input_tokens_total", "output_tokens_total")
)


def render(report: GatewayReport, metrics: RequestMetrics) -> str:
    series = [(key, one) for key, one in list(metrics.series.items())]
    own = [({"model": key[0] or UNKNOWN_MODEL, "service_class": key[1], "path": key[2]}, one) for key, one in series]
    lines: list[str] = []
    lines += _own_lines(own)
    lines += _gen_ai_lines([(_gen_ai_labels(*key), one) for key, one in series])
    lines += _vllm_lines(series_by_model(metrics), metrics.in_flight)
    lines += _fullness_lines(metrics.kv_used)
    lines += _cache_lines(metrics.kv_blocks)
    lines += _unrecorded_lines(metrics.refused_unrecorded)
    lines += metrics.limits.lines()
    lines += metrics.kv_events.lines()
    lines += metrics.sisters.lines()
    lines += _span_lines(metrics.spans)
    lines += _prompt_lines(metrics.dropped_prompts)
    lines += _report_lines(report)
    return "".join(lines)


def series_by_model(metrics: RequestMetrics) -> dict[str, list[Series]]:
    models: dict[str, list[Series]] = {model: [] for model in metrics.in_flight}
    for (model, _, _), series in list(metrics.series.items()):
        if model:
            models.setdefault(model, []).append(series)
    return models


def _own_lines(labelled: Labelled) -> Iterator[str]:
    yield _head("tokenyard_gateway_requests_total", "counter", "Requests that left a usage record.")
    for labels, series in labelled:
        for outcome, hundreds, count in series.by_outcome():
            more = {"outcome": outcome, "status": f"{hundreds}xx"}
            yield _sample("tokenyard_gateway_requests_total", labels | more, count)
    yield _head("tokenyard_gateway_tokens_total", "counter", "Tokens by kind; cached input is also in input.")
    for labels, series in labelled:
        for kind, count in _token_counts(series).items():
            yield _sample("tokenyard_gateway_tokens_total", labels | {"kind": kind}, count)
    yield _head("tokenyard_gateway_estimated_total", "counter", "Requests whose engine did not tell their usage.")
    for labels, series in labelled:
        yield _sample("tokenyard_gateway_estimated_total", labels, series.estimated)
    yield _head("tokenyard_gateway_queue_time_seconds", "histogram", "From arrival to an engine.")
    for labels, series in labelled:
        yield from _histogram("tokenyard_gateway_queue_time_seconds", labels, series.queue_ms)


def _token_counts(series: Series) -> dict[str, int]:
    return {
        "input": int(series.input_tokens.total),
        "cached_input": series.cached_input_tokens,
        "output": int(series.output_tokens.total),
        "reasoning": series.reasoning_tokens,
    }


def _gen_ai_labels(model: str, service_class: str, path: str) -> Labels:
    return {
        "gen_ai_operation_name": _OPERATIONS.get(path, "unknown"),
        "gen_ai_provider_name": "tokenyard",
        "gen_ai_request_model": model or UNKNOWN_MODEL,
        "service_class": service_class,
        "path": path,
    }


def _gen_ai_lines(labelled: Labelled) -> Iterator[str]:
    for name, (about, pick) in _GEN_AI.items():
        yield _head(name, "histogram", about)
        for labels, series in labelled:
            yield from _histogram(name, labels, pick(series))
    name = "gen_ai_client_token_usage"
    yield _head(name, "histogram", "Tokens of a request, by type.")
    for labels, series in labelled:
        yield from _histogram(name, labels | {"gen_ai_token_type": "input"}, series.input_tokens)
        yield from _histogram(name, labels | {"gen_ai_token_type": "output"}, series.output_tokens)


def _vllm_lines(models: dict[str, list[Series]], in_flight: dict[str, tuple[int, int]]) -> Iterator[str]:
    for position, (word, about) in enumerate((("running", "At an engine."), ("waiting", "In the gateway's queue."))):
        name = f"vllm:num_requests_{word}"
        yield _head(name, "gauge", about)
        for model in models:
            yield _sample(name, {"model_name": model}, in_flight.get(model, (0, 0))[position])
    known = {model: series for model, series in models.items() if series}
    for name, (about, count) in _VLLM_TOTALS.items():
        yield _head(name, "counter", about)
        for model, series in known.items():
            yield _sample(name, {"model_name": model}, sum(map(count, series)))
    yield from _vllm_ends(known)
    for name, (about, pick) in _VLLM.items():
        yield _head(name, "histogram", about)
        for model, series in known.items():
            yield from _histogram(name, {"model_name": model}, Histogram.sum_of(map(pick, series)))


def _vllm_ends(known: dict[str, list[Series]]) -> Iterator[str]:
    name = "vllm:request_success_total"
    yield _head(name, "counter", "Requests that have ended at an engine.")
    for model, series in known.items():
        ends = dict.fromkeys(_FINISHED.values(), 0)
        for outcome, _, count in chain.from_iterable(one.by_outcome() for one in series):
            if outcome in _FINISHED:
                ends[_FINISHED[outcome]] += count
        for reason, count in ends.items():
            yield _sample(name, {"model_name": model, "finished_reason": reason}, count)


def _fullness_lines(kv_used: dict[str, float]) -> Iterator[str]:
    """By vLLM's name of today and by that of before, for which some boards and schedulers ask."""
    for name in ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc") if kv_used else ():
        yield _head(name, "gauge", "How full the engines' KV caches are, 0 to 1.")
        for model, used in kv_used.items():
            yield _sample(name, {"model_name": model}, used)


def _cache_lines(kv_blocks: dict[str, dict[int, int]]) -> Iterator[str]:
    """As vLLM has it: what is known stands in the labels."""
    if kv_blocks:
        yield _head("vllm:cache_config_info", "gauge", "Blocks of the engines' KV caches, and tokens of a block.")
    for model, blocks in kv_blocks.items():
        for block_tokens, count in blocks.items():
            labels = {"model_name": model, "block_size": str(block_tokens), "num_gpu_blocks": str(count)}
            yield _sample("vllm:cache_config_info", labels, 1)


def _unrecorded_lines(by_code: dict[str, int]) -> Iterator[str]:
    yield _head("tokenyard_gateway_unrecorded_errors_total", "counter", "Errors to requests that leave no record.")
    for code, count in list(by_code.items()):
        yield _sample("tokenyard_gateway_unrecorded_errors_total", {"code": code}, count)


def _span_lines(spans: SpanCounts) -> Iterator[str]:
    yield _head("tokenyard_gateway_spans_total", "counter", "Spans of traces that a collector took, or did not.")
    for outcome, count in (("sent", spans.sent), ("dropped", spans.dropped)):
        yield _sample("tokenyard_gateway_spans_total", {"outcome": outcome}, count)


def _prompt_lines(dropped: int) -> Iterator[str]:
    name = "tokenyard_gateway_prompts_dropped_total"
    yield _head(name, "counter", "Prompts that should have been kept and were not.")
    yield f"{name} {dropped}\n"


def _report_lines(report: GatewayReport) -> Iterator[str]:
    """Totals as counters, the rest as gauges; unknown values are left out, not 0."""
    for field in report.__struct_fields__:
        value = getattr(report, field)
        if isinstance(value, int | float) and field not in _TOLD_BY_SERIES:
            name = f"tokenyard_gateway_{field}"
            kind = "counter" if field.endswith("_total") and not field.startswith("endpoints") else "gauge"
            yield f"# TYPE {name} {kind}\n{name} {value + 0}\n"  # a bool becomes a number
    yield _head("tokenyard_gateway_queued_requests_by_class", "gauge", "Requests that wait, by service class.")
    for service_class, count in report.queued_by_class.items():
        yield _sample("tokenyard_gateway_queued_requests_by_class", {"service_class": service_class}, count)


def _head(name: str, kind: str, about: str) -> str:
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n"


def _sample(name: str, labels: Labels, value: float) -> str:
    return f"{name}{{{_inner(labels.items())}}} {value}\n"


def _histogram(name: str, labels: Labels, histogram: Histogram) -> Iterator[str]:
    """Times are kept in milliseconds and shown in seconds."""
    inner = _inner(labels.items())
    unit = 1000 if name.endswith("_seconds") else 1
    bounds = [bound / unit if unit > 1 else bound for bound in histogram.bounds]
    cumulative = 0
    for bound, count in zip((*bounds, "+Inf"), list(histogram.counts), strict=True):
        cumulative += count
        yield f'{name}_bucket{{{inner},le="{bound}"}} {cumulative}\n'
    yield f"{name}_sum{{{inner}}} {histogram.total / unit}\n{name}_count{{{inner}}} {cumulative}\n"


def _inner(labels: Iterable[tuple[str, str]]) -> str:
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

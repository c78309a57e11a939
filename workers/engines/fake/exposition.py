"""Counters of the engine, and /metrics in the text format with vLLM's names."""

from bisect import bisect_left
from itertools import accumulate

from workers.engines.fake.model.continuous_batching import ContinuousBatching

CONTENT_TYPE = "text/plain; version=1.0.0; charset=utf-8"

_TTFT_BOUNDS = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0,
    640.0, 2560.0,
)  # fmt: skip
_ITL_BOUNDS = (
    0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
_REQUEST_BOUNDS = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
    1920.0, 7680.0,
)  # fmt: skip
_TOKEN_BOUNDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0)
_STEP_BOUNDS = (
    1.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0, 4096.0, 8192.0, 16384.0,
)  # fmt: skip

FINISH_REASONS = ("stop", "length", "abort", "error", "repetition")


class Histogram:
    def __init__(self, help_text: str, bounds: tuple[float, ...]) -> None:
        self.help_text = help_text
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        self._counts[bisect_left(self._bounds, value)] += times
        self._sum += value * times

    def lines(self, name: str, labels: str) -> list[str]:
        totals = list(accumulate(self._counts))
        bounds = [*map(str, self._bounds), "+Inf"]
        buckets = [
            f'{name}_bucket{{engine="0",le="{bound}",{labels}}} {float(total)}'
            for bound, total in zip(bounds, totals, strict=True)
        ]
        return [
            *buckets,
            f'{name}_count{{engine="0",{labels}}} {float(totals[-1])}',
            f'{name}_sum{{engine="0",{labels}}} {self._sum}',
        ]


class EngineMetrics:
    """`created_at` in Unix seconds, when counting began."""

    def __init__(self, model_name: str, created_at: float) -> None:
        self._label = f'model_name="{model_name}"'
        self._created_at = created_at
        self.prompt_tokens_total = 0
        self.cached_tokens_total = 0
        self.generation_tokens_total = 0
        self.admission_rejections_total = 0
        self.finished_total = dict.fromkeys(FINISH_REASONS, 0)
        self.time_to_first_token = Histogram("Histogram of time to first token in seconds.", _TTFT_BOUNDS)
        self.inter_token_latency = Histogram("Histogram of inter-token latency in seconds.", _ITL_BOUNDS)
        self.e2e_latency = Histogram("Histogram of e2e request latency in seconds.", _REQUEST_BOUNDS)
        self.queue_time = Histogram("Histogram of time spent in WAITING phase for request.", _REQUEST_BOUNDS)
        self.step_tokens = Histogram("Histogram of number of tokens per engine_step.", _STEP_BOUNDS)
        self.request_prompt_tokens = Histogram("Number of prefill tokens processed.", _TOKEN_BOUNDS)
        self.request_generation_tokens = Histogram("Number of generation tokens processed.", _TOKEN_BOUNDS)

    def render(self, batch: ContinuousBatching) -> bytes:
        lines = self._gauges(batch) + self._counters(batch) + self._histograms() + [self._cache_config(batch)]
        return ("\n".join(lines) + "\n").encode()

    def _gauges(self, batch: ContinuousBatching) -> list[str]:
        label = self._label
        waiting = float(batch.waiting_count)
        return [
            *_head("vllm:num_requests_running", "gauge", "Number of requests in model execution batches."),
            self._plain("vllm:num_requests_running", batch.running_count),
            *_head("vllm:num_requests_waiting", "gauge", "Number of requests waiting to be processed."),
            self._plain("vllm:num_requests_waiting", batch.waiting_count),
            *_head("vllm:num_requests_waiting_by_reason", "gauge", "Number of waiting requests by reason."),
            f'vllm:num_requests_waiting_by_reason{{engine="0",{label},reason="capacity"}} {waiting}',
            f'vllm:num_requests_waiting_by_reason{{engine="0",{label},reason="deferred"}} 0.0',
            *_head("vllm:engine_sleep_state", "gauge", "Engine sleep state."),
            f'vllm:engine_sleep_state{{engine="0",{label},sleep_state="awake"}} 1.0',
            *_head("vllm:kv_cache_usage_perc", "gauge", "KV-cache usage. 1 means 100 percent usage."),
            self._plain("vllm:kv_cache_usage_perc", batch.kv.used_ratio),
        ]

    def _counters(self, batch: ContinuousBatching) -> list[str]:
        totals = {
            "prefix_cache_queries": ("Prefix cache queries, in number of tokens.", batch.prefix_queried_tokens_total),
            "prefix_cache_hits": ("Prefix cache hits, in number of cached tokens.", batch.prefix_hit_tokens_total),
            "num_preemptions": ("Cumulative number of preemption from the engine.", batch.preemptions_total),
            "prompt_tokens": ("Number of prefill tokens processed.", self.prompt_tokens_total),
            "prompt_tokens_cached": ("Number of cached prompt tokens.", self.cached_tokens_total),
            "generation_tokens": ("Number of generation tokens processed.", self.generation_tokens_total),
        }
        lines: list[str] = []
        for name, (help_text, total) in totals.items():
            lines += _head(f"vllm:{name}_total", "counter", help_text)
            lines.append(self._plain(f"vllm:{name}_total", total))
            lines += _head(f"vllm:{name}_created", "gauge", help_text)
            lines.append(f'vllm:{name}_created{{engine="0",{self._label}}} {self._created_at}')
        return lines + self._finished() + self._rejections()

    def _finished(self) -> list[str]:
        name = "vllm:request_success_total"
        return _head(name, "counter", "Count of successfully processed requests.") + [
            f'{name}{{engine="0",finished_reason="{reason}",{self._label}}} {float(count)}'
            for reason, count in self.finished_total.items()
        ]

    def _rejections(self) -> list[str]:
        name = "vllm:admission_rejections_total"
        return [
            *_head(name, "counter", "Count of requests rejected at admission."),
            f'{name}{{{self._label},reason="max_num_queued_reqs"}} {float(self.admission_rejections_total)}',
        ]

    def _histograms(self) -> list[str]:
        histograms = {
            "request_prompt_tokens": self.request_prompt_tokens,
            "request_generation_tokens": self.request_generation_tokens,
            "iteration_tokens_total": self.step_tokens,
            "time_to_first_token_seconds": self.time_to_first_token,
            "inter_token_latency_seconds": self.inter_token_latency,
            "e2e_request_latency_seconds": self.e2e_latency,
            "request_queue_time_seconds": self.queue_time,
        }
        lines: list[str] = []
        for name, histogram in histograms.items():
            lines += _head(f"vllm:{name}", "histogram", histogram.help_text)
            lines += histogram.lines(f"vllm:{name}", self._label)
        return lines

    def _cache_config(self, batch: ContinuousBatching) -> str:
        blocks, size = batch.kv.total, batch.limits.block_size_tokens
        labels = (
            f'block_size="{size}",cache_dtype="auto",enable_prefix_caching="True",engine="0",'
            f'kv_cache_size_tokens="{blocks * size}",num_gpu_blocks="{blocks}"'
        )
        head = _head("vllm:cache_config_info", "gauge", "Information of the LLMEngine CacheConfig")
        return "\n".join([*head, f"vllm:cache_config_info{{{labels}}} 1.0"])

    def _plain(self, name: str, value: float) -> str:
        return f'{name}{{engine="0",{self._label}}} {float(value)}'


def _head(name: str, kind: str, help_text: str) -> list[str]:
    return [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]

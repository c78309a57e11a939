"""vLLM's /metrics. With data parallelism each engine has its own samples: counts add up, use is averaged."""

from workers.engines.interface import EngineReading
from workers.engines.metrics_text import as_count, sum_by_name

_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_KV_USED = "vllm:kv_cache_usage_perc"
_PROMPT = "vllm:prompt_tokens_total"
_GENERATED = "vllm:generation_tokens_total"


def read_vllm_metrics(text: str) -> EngineReading:
    totals = sum_by_name(text, (_RUNNING, _WAITING, _KV_USED, _PROMPT, _GENERATED))
    engines = sum(line.startswith(f"{_KV_USED}{{") for line in text.splitlines())
    kv_used = totals.get(_KV_USED)
    return EngineReading(
        running_requests=as_count(totals.get(_RUNNING)),
        waiting_requests=as_count(totals.get(_WAITING)),
        kv_used_ratio=None if kv_used is None else kv_used / engines,
        prompt_tokens_total=as_count(totals.get(_PROMPT)),
        generated_tokens_total=as_count(totals.get(_GENERATED)),
    )

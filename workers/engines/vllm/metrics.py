"""vLLM's /metrics. With data parallelism each engine has its own samples: counts add up, use is averaged."""

import re

from workers.engines.interface import EngineReading
from workers.engines.metrics_text import as_count, sum_by_name

_RUNNING = "vllm:num_requests_running"
_WAITING = "vllm:num_requests_waiting"
_KV_USED = "vllm:kv_cache_usage_perc"
_PROMPT = "vllm:prompt_tokens_total"
_GENERATED = "vllm:generation_tokens_total"
_STEPS = "vllm:iteration_tokens_total_count"
_CACHE_CONFIG = "vllm:cache_config_info"
_BLOCK_SIZE = re.compile(r'[{,]block_size="(\d{1,15})"')
_BLOCKS = re.compile(r'[{,]num_gpu_blocks="(\d{1,15})"')


def read_vllm_metrics(text: str) -> EngineReading:
    totals = sum_by_name(text, (_RUNNING, _WAITING, _KV_USED, _PROMPT, _GENERATED, _STEPS))
    engines = max(text.count(f"\n{_KV_USED}{{"), 1)
    kv_used = totals.get(_KV_USED)
    block_tokens, kv_capacity_tokens = read_cache_size(text)
    return EngineReading(
        running_requests=as_count(totals.get(_RUNNING)),
        waiting_requests=as_count(totals.get(_WAITING)),
        kv_used_ratio=None if kv_used is None else kv_used / engines,
        prompt_tokens_total=as_count(totals.get(_PROMPT)),
        generated_tokens_total=as_count(totals.get(_GENERATED)),
        steps_total=as_count(totals.get(_STEPS)),
        kv_capacity_tokens=kv_capacity_tokens,
        block_tokens=block_tokens,
    )


def read_cache_size(text: str) -> tuple[int | None, int | None]:
    """Tokens of a KV block, and of all blocks of one engine."""
    at = text.find(f"\n{_CACHE_CONFIG}{{")
    if at < 0:
        return None, None
    line = text[at + 1 : text.find("\n", at + 1)]
    size, blocks = _BLOCK_SIZE.search(line), _BLOCKS.search(line)
    if size is None or blocks is None:
        return None, None
    return int(size[1]), as_count(int(size[1]) * int(blocks[1]))

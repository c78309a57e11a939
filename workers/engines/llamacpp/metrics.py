"""llama.cpp's /metrics. Cached prompt tokens are counted apart by it, and included by us as by vLLM."""

from workers.engines.interface import EngineReading
from workers.engines.metrics_text import as_count, sum_by_name

_RUNNING = "llamacpp:requests_processing"
_WAITING = "llamacpp:requests_deferred"
_PROMPT = "llamacpp:prompt_tokens_total"
_CACHED = "llamacpp:prompt_tokens_cached_total"
_GENERATED = "llamacpp:tokens_predicted_total"
_STEPS = "llamacpp:n_decode_total"


def read_llamacpp_metrics(text: str) -> EngineReading:
    totals = sum_by_name(text, (_RUNNING, _WAITING, _PROMPT, _CACHED, _GENERATED, _STEPS))
    prompt_tokens = totals.get(_PROMPT)
    return EngineReading(
        running_requests=as_count(totals.get(_RUNNING)),
        waiting_requests=as_count(totals.get(_WAITING)),
        prompt_tokens_total=None if prompt_tokens is None else as_count(prompt_tokens + totals.get(_CACHED, 0)),
        generated_tokens_total=as_count(totals.get(_GENERATED)),
        steps_total=as_count(totals.get(_STEPS)),
    )

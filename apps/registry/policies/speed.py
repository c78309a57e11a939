"""How fast a model can be on a GPU: bounded by reading the weights and the cache (decode) or by arithmetic (prefill).

A first answer before anything was measured. The shares of the data sheet's figures that engines reach are those seen
with vLLM on A100 and H100: about 0.7 of the bandwidth while decoding, half of the arithmetic while prefilling.
"""

from dataclasses import dataclass

from apps.registry.policies.memory import ModelFacts, Serving, kv_bytes_per_token_on_gpu

BANDWIDTH_SHARE = 0.7
ARITHMETIC_SHARE = 0.5
# Each all-reduce costs; per doubling of tensor parallel, so much of the time is added.
_COMMUNICATION_SHARE = 0.08
_STEP_S = 0.0015


@dataclass(frozen=True, kw_only=True, slots=True)
class GPUSpeed:
    """Of one GPU, from its data sheet."""

    hbm_bytes_per_s: float
    bf16_flops: float
    has_fp8: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SpeedEstimate:
    """`tpot_ms` and `output_tokens_per_s` with `batch` requests of `context_tokens` at once."""

    batch: int
    context_tokens: int
    tpot_ms: float
    output_tokens_per_s: float
    prefill_tokens_per_s: float


def estimate_speed(
    facts: ModelFacts, serving: Serving, gpu: GPUSpeed, *, batch: int = 1, context_tokens: int = 1024
) -> SpeedEstimate:
    width = serving.tensor_parallel
    overhead = 1 + _COMMUNICATION_SHARE * (width.bit_length() - 1)
    prefill = _prefill_tokens_per_s(facts, gpu) * width / overhead
    read_bytes = _weights_read(facts, batch) / width
    read_bytes += batch * context_tokens * kv_bytes_per_token_on_gpu(facts.model, serving) * serving.pipeline_parallel
    read_s = read_bytes / (gpu.hbm_bytes_per_s * BANDWIDTH_SHARE)
    step_s = max(read_s, batch / prefill) * overhead + _STEP_S
    return SpeedEstimate(
        batch=batch,
        context_tokens=context_tokens,
        tpot_ms=1000 * step_s,
        output_tokens_per_s=batch / step_s,
        prefill_tokens_per_s=prefill,
    )


def _weights_read(facts: ModelFacts, batch: int) -> float:
    """A step of many requests meets more experts than one request does, and at most all."""
    parameters = facts.parameters
    share = parameters.active / (parameters.total or 1)
    experts = facts.model.experts
    if experts is not None and batch > 1:
        untouched = (1 - experts.per_token / experts.count) ** batch
        share = max(share, 1 - untouched)
    return facts.weight_bytes * min(1.0, share)


def _prefill_tokens_per_s(facts: ModelFacts, gpu: GPUSpeed) -> float:
    flops = gpu.bf16_flops * (2 if gpu.has_fp8 and "fp8" in facts.precision else 1)
    return ARITHMETIC_SHARE * flops / (2 * facts.parameters.active)

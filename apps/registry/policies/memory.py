"""How much memory a replica needs on each GPU: weights, KV cache, activations, and what CUDA takes."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from apps.registry.policies.architecture import Architecture, ConfigError, read_architecture
from apps.registry.policies.weights import (
    Parameters,
    Precision,
    count_parameters,
    read_precision,
    total_of_index,
    weight_bytes,
)

MIB = 1024**2
GIB = 1024**3
# The CUDA context, NCCL's buffers and captured graphs; as engines of this kind were seen to take beyond torch's own.
RUNTIME_BYTES = 1024 * MIB
NCCL_BYTES = 512 * MIB
# A thousand times what anybody has made.
MOST_PARAMETERS = 10**15
_ACTIVATION_DTYPE_BYTES = 2
_LOGITS_DTYPE_BYTES = 4
_STATE_DTYPE_BYTES = 4
_FP8_KV = {"fp8", "fp8_e4m3", "fp8_e5m2"}
_DEFAULT_CONTEXT_TOKENS = 4096


@dataclass(frozen=True, kw_only=True, slots=True)
class Serving:
    """How it would be run. `kv_tokens` is how many tokens of all requests the cache shall hold at least."""

    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    max_batched_tokens: int = 2048
    max_sequences: int = 64
    kv_dtype: str = "auto"
    kv_tokens: int | None = None
    max_context_tokens: int | None = None
    lora_bytes: int = 0

    @property
    def gpu_count(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """What is known of a version. `weights_are_exact`: from its index and not from a formula."""

    model: Architecture
    parameters: Parameters
    weight_bytes: int
    weights_are_exact: bool
    precision: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """What an engine of a version was seen to use on each of `gpu_count` GPUs of a model ("" where that is unknown).

    `kv_tokens` its cache held, which is part of it.
    """

    gpu_count: int
    gpu_model: str = ""
    memory_bytes: int
    kv_tokens: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryEstimate:
    """On each GPU, in bytes, but for the whole model's `weights_total_bytes` and `kv_bytes_per_token`.

    `measured_bytes` are all but the cache, where engines have told; then they count instead of what was reckoned.
    """

    weights_total_bytes: int
    kv_bytes_per_token: int
    weights_bytes: int
    kv_bytes: int
    activation_bytes: int
    runtime_bytes: int
    kv_tokens: int
    state_bytes: int = 0
    measured_bytes: int | None = None

    @property
    def estimated_bytes(self) -> int:
        """All but the cache, as reckoned."""
        return self.weights_bytes + self.activation_bytes + self.runtime_bytes + self.state_bytes

    @property
    def fixed_bytes(self) -> int:
        return self.estimated_bytes if self.measured_bytes is None else self.measured_bytes

    @property
    def total_bytes(self) -> int:
        return self.fixed_bytes + self.kv_bytes

    def kv_tokens_on(self, usable_bytes: int, kv_bytes_per_token_on_gpu: float) -> int | None:
        """How many tokens the cache would hold if the replica had so much of each GPU; None of what caches nothing."""
        if not kv_bytes_per_token_on_gpu:
            return None
        return max(0, int((usable_bytes - self.fixed_bytes) / kv_bytes_per_token_on_gpu))


def read_facts(
    config: Mapping[str, Any], *, index: Mapping[str, Any] | None = None, quantisation: str = "", file_bytes: int = 0
) -> ModelFacts:
    """`index` is the weight index, `file_bytes` the size of a single file of weights. Raises ConfigError."""
    model = read_architecture(config)
    parameters = count_parameters(model)
    exact = (total_of_index(index) if index else None) or file_bytes
    precision = _precision_of(config, model, quantisation, has_size=bool(exact))
    if parameters.total > MOST_PARAMETERS:
        raise ConfigError("config.json describes a model that no machine could hold")
    # An index of full-precision weights says nothing of what they become when the engine quantises while loading.
    is_made_smaller = bool(quantisation) and "quantization_config" not in config and not file_bytes
    return ModelFacts(
        model=model,
        parameters=parameters,
        weight_bytes=exact if exact and not is_made_smaller else weight_bytes(parameters, model, precision),
        weights_are_exact=bool(exact) and not is_made_smaller,
        precision=precision.name,
    )


def _precision_of(config: Mapping[str, Any], model: Architecture, quantisation: str, *, has_size: bool) -> Precision:
    """Where the size is known, a way of storing weights that is not is no reason to know nothing."""
    try:
        return read_precision(config, model, quantisation=quantisation)
    except ConfigError:
        stored = config.get("quantization_config")
        if not has_size or not isinstance(stored, Mapping):
            raise
        return Precision(name=str(stored.get("quant_method") or "unknown"), bits=8 * model.dtype_bytes)


def estimate_memory(facts: ModelFacts, serving: Serving) -> MemoryEstimate:
    model = facts.model
    tokens = serving.kv_tokens or _context_of(model, serving)
    per_gpu = kv_bytes_per_token_on_gpu(model, serving)
    tokens += model.heard_tokens
    return MemoryEstimate(
        weights_total_bytes=facts.weight_bytes,
        kv_bytes_per_token=kv_bytes_per_token(model, serving.kv_dtype),
        weights_bytes=facts.weight_bytes // serving.gpu_count + serving.lora_bytes // serving.tensor_parallel,
        kv_bytes=int(_cached_tokens(model, serving, tokens) * per_gpu),
        state_bytes=_state_bytes(model, serving),
        activation_bytes=activation_bytes(model, serving),
        runtime_bytes=RUNTIME_BYTES + (NCCL_BYTES if serving.gpu_count > 1 else 0),
        kv_tokens=tokens,
    )


def _cached_tokens(model: Architecture, serving: Serving, tokens: int) -> float:
    """Of one long request, as if all layers kept them: those with a window keep that, and what a step adds to it."""
    kinds = model.kinds
    if not kinds.window_tokens or not kinds.windowed or not kinds.cached:
        return tokens
    within = min(tokens, kinds.window_tokens + serving.max_batched_tokens)
    return ((kinds.cached - kinds.windowed) * tokens + kinds.windowed * within) / kinds.cached


def _state_bytes(model: Architecture, serving: Serving) -> int:
    """Of recurrent layers, for every request at once; kept in single precision."""
    kinds = model.kinds
    whole = kinds.recurrent * kinds.state_elements * serving.max_sequences * _STATE_DTYPE_BYTES
    return whole // serving.gpu_count


def _context_of(model: Architecture, serving: Serving) -> int:
    """One request of full length must fit, or the engine does not start."""
    return serving.max_context_tokens or model.max_context_tokens or _DEFAULT_CONTEXT_TOKENS


def kv_bytes_per_token(model: Architecture, kv_dtype: str = "auto") -> int:
    """Of the whole model, for a sequence shorter than any window."""
    each = 1.0 if kv_dtype in _FP8_KV else max(2.0, min(model.dtype_bytes, 2.0))
    if model.latent is not None:
        return int(model.kinds.cached * (model.latent.kv_rank + model.latent.rope_size) * each)
    return int(2 * model.kinds.cached * model.kv_heads * model.head_size * each)


def kv_bytes_per_token_on_gpu(model: Architecture, serving: Serving) -> float:
    """Heads are divided over tensor parallel as far as there are; a latent cache is whole on each."""
    each = kv_bytes_per_token(model, serving.kv_dtype) / serving.pipeline_parallel
    if model.latent is not None:
        return each
    return each / min(serving.tensor_parallel, model.kv_heads)


def activation_bytes(model: Architecture, serving: Serving) -> int:
    """Of the largest step: hidden states and one layer's feed-forward of all its tokens, and the logits of its ends."""
    tokens = max(serving.max_batched_tokens, serving.max_sequences)
    widest = model.feed_forward
    if model.experts is not None:
        widest = model.experts.size * model.experts.per_token + model.experts.shared_size
    step = tokens * (4 * model.hidden + 2 * widest // serving.tensor_parallel) * _ACTIVATION_DTYPE_BYTES
    logits = serving.max_sequences * model.vocabulary * _LOGITS_DTYPE_BYTES
    return int(step + logits)


def corrected(estimate: MemoryEstimate, measured: Measured, kv_bytes_per_token_on_gpu: float) -> MemoryEstimate:
    """What was measured goes before what was reckoned, but for the cache, which an engine makes as large as it may.

    Less than half of the weights is no engine that has loaded them: such a measurement says nothing.
    """
    if measured.kv_tokens is None:
        return estimate
    fixed = measured.memory_bytes - int(measured.kv_tokens * kv_bytes_per_token_on_gpu)
    return estimate if 2 * fixed < estimate.weights_bytes else replace(estimate, measured_bytes=fixed)

"""From a version as it is registered to what it needs of a GPU."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from apps.registry.policies.architecture import ConfigError
from apps.registry.policies.memory import (
    Measured,
    MemoryEstimate,
    ModelFacts,
    Serving,
    corrected,
    estimate_memory,
    kv_bytes_per_token_on_gpu,
    read_facts,
)
from workers.contracts.engine_args import most_lora_rank, most_loras

_DEFAULT_BATCHED_TOKENS = 2048
_LORA_DTYPE_BYTES = 2
# As wide as a deployment may ask for.
_WIDEST = 64


@dataclass(frozen=True, kw_only=True, slots=True)
class Registered:
    """A version's row, as far as memory depends on it."""

    config: Mapping[str, Any]
    weight_bytes: int | None
    quantisation: str
    max_context_tokens: int | None
    engine_args: Mapping[str, Any]
    has_adapters: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    facts: ModelFacts
    serving: Serving
    memory: MemoryEstimate

    def kv_tokens_on(self, usable_bytes: int) -> int | None:
        return self.memory.kv_tokens_on(usable_bytes, kv_bytes_per_token_on_gpu(self.facts.model, self.serving))


def facts_of(version: Registered) -> ModelFacts | None:
    """None when nothing is known of its shape. Raises ConfigError."""
    if not version.config:
        return None
    return read_facts(version.config, quantisation=version.quantisation, file_bytes=version.weight_bytes or 0)


def problem_of_width(version: Registered, width: int) -> str:
    """Empty where the model is divided evenly over so many GPUs, or nobody knows."""
    try:
        facts = facts_of(version)
    except ConfigError:
        return ""
    if facts is None or not facts.model.kinds.attending or facts.model.heads % width == 0:
        return ""
    heads = facts.model.heads
    doing = ", ".join(str(each) for each in range(1, heads + 1) if heads % each == 0 and each <= _WIDEST)
    return f"tensor_parallel {width} does not divide the model's {heads} attention heads; {doing} do"


def need_of(
    version: Registered,
    *,
    tensor_parallel: int,
    pipeline_parallel: int,
    max_running_requests: int,
    measured: Sequence[Measured] = (),
    gpu_model: str = "",
) -> Need | None:
    """On a GPU of that model, "" for any. None when nothing is known of its shape, or what is known makes no sense."""
    try:
        facts = facts_of(version)
    except ConfigError:
        return None
    if facts is None:
        return None
    serving = Serving(
        tensor_parallel=tensor_parallel,
        pipeline_parallel=pipeline_parallel,
        max_batched_tokens=_number(version.engine_args, "max_num_batched_tokens") or _DEFAULT_BATCHED_TOKENS,
        max_sequences=max_running_requests,
        kv_dtype=str(version.engine_args.get("kv_cache_dtype") or "auto"),
        max_context_tokens=version.max_context_tokens,
        lora_bytes=_lora_bytes(facts, version),
    )
    alike = [each for each in measured if each.gpu_count == serving.gpu_count]
    own = [each for each in alike if each.gpu_model == gpu_model]
    return Need(facts=facts, serving=serving, memory=_memory_of(facts, serving, own or alike))


def _lora_bytes(facts: ModelFacts, version: Registered) -> int:
    """Two narrow matrices beside each of a layer's seven, for as many adapters as are held at once."""
    if not version.has_adapters:
        return 0
    model, rank = facts.model, most_lora_rank(version.engine_args)
    heads = (model.heads + model.kv_heads) * model.head_size
    ends = 4 * model.hidden + 2 * heads + 3 * (model.hidden + model.feed_forward)
    return int(most_loras(version.engine_args) * model.layers * rank * ends * _LORA_DTYPE_BYTES)


def _memory_of(facts: ModelFacts, serving: Serving, measured: Sequence[Measured]) -> MemoryEstimate:
    """The most that was measured: on a GPU that nobody has tried, others' figures are better than a formula's."""
    estimate, kv_bytes = estimate_memory(facts, serving), kv_bytes_per_token_on_gpu(facts.model, serving)
    found = [corrected(estimate, each, kv_bytes) for each in measured]
    return max(found, key=lambda each: each.measured_bytes or 0, default=estimate)


def _number(arguments: Mapping[str, Any], name: str) -> int | None:
    value = arguments.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None

"""What a model's own config.json says of its shape, in the words of its makers, read into one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Their feed-forward has two matrices; everybody else's is gated and has three.
_UNGATED = {"gpt2", "opt", "gpt_neox", "falcon", "phi", "starcoder2", "bloom", "mpt", "bert", "roberta", "gptj"}
# Say nothing of the expert that every token meets.
_ONE_SHARED_EXPERT = {"llama4", "llama4_text"}
# Where makers put what others have at the top.
_PARTS = ("text_config", "attn_config", "ffn_config")
_BYTES_OF_DTYPE = {"float32": 4.0, "float16": 2.0, "bfloat16": 2.0, "float8_e4m3fn": 1.0, "float8_e5m2": 1.0}


class ConfigError(ValueError):
    """The message names what is missing or makes no sense."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Latent:
    """Multi-head latent attention: what is cached of a token is one latent vector and one rotary key for all heads."""

    kv_rank: int
    query_rank: int | None
    rope_size: int
    nope_size: int
    value_size: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Experts:
    """A layer's routed and shared experts; the first `dense_layers` layers have none."""

    count: int
    per_token: int
    size: int
    shared_size: int = 0
    dense_layers: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Architecture:
    """Sizes are numbers of elements. `windowed_layers` keep at most `window_tokens` of a sequence."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    feed_forward: int
    is_gated: bool = True
    is_tied: bool = False
    experts: Experts | None = None
    latent: Latent | None = None
    window_tokens: int | None = None
    windowed_layers: int = 0
    max_context_tokens: int | None = None
    dtype_bytes: float = 2.0


def read_architecture(config: Mapping[str, Any]) -> Architecture:
    """Raises ConfigError. A model that also sees or hears is read by its text part; the rest is small."""
    merged = dict(config)
    for part in _PARTS:
        merged |= each if isinstance(each := config.get(part), Mapping) else {}
    name = str(merged.get("model_type") or "unknown")
    hidden = _number(merged, "hidden_size", "n_embd", "d_model")
    heads = _number(merged, "num_attention_heads", "n_head", "num_heads", "n_heads")
    layers = _number(merged, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    head_size = _optional(merged, "head_dim") or hidden // heads
    if not head_size:
        raise ConfigError(f"config.json has {heads} heads for a hidden size of {hidden}")
    window, windowed = _window(merged, layers)
    return Architecture(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(merged, heads),
        head_size=head_size,
        vocabulary=_number(merged, "vocab_size"),
        feed_forward=_optional(merged, "intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim")
        or 4 * hidden,
        is_gated=name not in _UNGATED,
        is_tied=bool(merged.get("tie_word_embeddings", name in {"gpt2", "gemma", "gemma2"})),
        experts=_experts(merged),
        latent=_latent(merged),
        window_tokens=window,
        windowed_layers=windowed,
        max_context_tokens=_optional(merged, "max_position_embeddings", "n_positions", "seq_length"),
        dtype_bytes=_dtype_bytes(merged),
    )


def _kv_heads(config: Mapping[str, Any], heads: int) -> int:
    if config.get("multi_query") is True and "num_kv_heads" not in config:
        return 1
    found = _optional(config, "num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads") or heads
    if found > heads:
        raise ConfigError(f"config.json has {found} heads of keys and values for {heads} heads")
    return found


def _experts(config: Mapping[str, Any]) -> Experts | None:
    count = _optional(config, "num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")
    if not count:
        return None
    size = _optional(config, "moe_intermediate_size", "intermediate_size", "ffn_hidden_size") or 0
    shared_count = _optional(config, "n_shared_experts") or int(config.get("model_type") in _ONE_SHARED_EXPERT)
    shared = _optional(config, "shared_expert_intermediate_size") or size * shared_count
    return Experts(
        count=count,
        per_token=_optional(config, "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k") or 1,
        size=size,
        shared_size=shared,
        dense_layers=_optional(config, "first_k_dense_replace") or 0,
    )


def _latent(config: Mapping[str, Any]) -> Latent | None:
    rank = _optional(config, "kv_lora_rank")
    if not rank:
        return None
    return Latent(
        kv_rank=rank,
        query_rank=_optional(config, "q_lora_rank"),
        rope_size=_number(config, "qk_rope_head_dim"),
        nope_size=_number(config, "qk_nope_head_dim"),
        value_size=_number(config, "v_head_dim"),
    )


def _window(config: Mapping[str, Any], layers: int) -> tuple[int | None, int]:
    """The window, and how many layers have it."""
    window = _optional(config, "sliding_window")
    if not window or config.get("use_sliding_window") is False:
        return None, 0
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return window, kinds.count("sliding_attention")
    pattern = _optional(config, "sliding_window_pattern")
    return window, layers - layers // pattern if pattern else layers


def _dtype_bytes(config: Mapping[str, Any]) -> float:
    name = str(config.get("torch_dtype") or config.get("dtype") or "bfloat16").removeprefix("torch.")
    return _BYTES_OF_DTYPE.get(name, 2.0)


def _number(config: Mapping[str, Any], *names: str) -> int:
    found = _optional(config, *names)
    if not found:
        raise ConfigError(f"config.json has no {names[0]}")
    return found


def _optional(config: Mapping[str, Any], *names: str) -> int | None:
    """The first that is there; null and 0 stand for "none"."""
    for name in names:
        value = config.get(name)
        if isinstance(value, bool) or value in (None, 0):
            continue
        if not isinstance(value, int) or not 0 < value < 2**40:
            raise ConfigError(f"{name} in config.json should be a positive number")
        return value
    return None

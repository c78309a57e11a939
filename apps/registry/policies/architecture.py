"""What a model's own config.json says of its shape, in the words of its makers, read into one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.registry.policies.layers import STATE_ONLY, Layers, read_layers

# Their feed-forward has two matrices; everybody else's is gated and has three.
_UNGATED = {
    "gpt2", "opt", "gpt_neox", "falcon", "phi", "starcoder2", "bloom", "mpt", "bert", "roberta", "xlm-roberta", "gptj",
    "whisper", "nemotron", "nemotron_h",
}  # fmt: skip
_HEARING = {"whisper"}
# Say nothing of the expert that every token meets.
_ONE_SHARED_EXPERT = {"llama4", "llama4_text"}
# Have one matrix for both ends unless they say otherwise.
_TIED = {
    "gpt2", "gemma", "gemma2", "gemma3", "gemma3_text", "cohere", "cohere2", "opt", "bloom", "falcon", "starcoder2",
    "mamba", "whisper", "bert", "roberta", "xlm-roberta",
}  # fmt: skip
# What a text part leaves out because its makers' code has it for granted.
_GRANTED: dict[str, dict[str, Any]] = {
    "llama": {
        "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32, "num_attention_heads": 32,
        "vocab_size": 32000,
    },
    "mistral": {
        "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 32000,
    },
    "gemma3_text": {
        "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26, "num_attention_heads": 8,
        "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 262_208, "max_position_embeddings": 131_072,
    },
}  # fmt: skip
_FEED_FORWARD = ("intermediate_size_mlp", "intermediate_size", "n_inner", "ffn_dim", "decoder_ffn_dim")
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
    """Sizes are numbers of elements.

    `encoder_layers` read what is heard, of which the decoder caches `heard_tokens` for each sequence besides.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    vocabulary: int
    feed_forward: int
    kinds: Layers
    is_gated: bool = True
    is_tied: bool = False
    experts: Experts | None = None
    latent: Latent | None = None
    encoder_layers: int = 0
    heard_tokens: int = 0
    max_context_tokens: int | None = None
    dtype_bytes: float = 2.0


def read_architecture(config: Mapping[str, Any]) -> Architecture:
    """Raises ConfigError. A model that also sees or hears is read by its text part; the rest is small."""
    merged = _merged(config)
    name = str(merged.get("model_type") or "unknown")
    if name in STATE_ONLY:
        merged = {"num_attention_heads": 1} | merged
    hidden = _number(merged, "hidden_size", "n_embd", "d_model")
    heads = _number(merged, "num_attention_heads", "n_head", "num_heads", "n_heads", "decoder_attention_heads")
    layers = _number(merged, "decoder_layers", "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    head_size = _optional(merged, "head_dim") or hidden // heads
    if not head_size:
        raise ConfigError(f"config.json has {heads} heads for a hidden size of {hidden}")
    return Architecture(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=_kv_heads(merged, heads),
        head_size=head_size,
        vocabulary=_number(merged, "vocab_size"),
        feed_forward=_optional(merged, *_FEED_FORWARD) or 4 * hidden,
        is_gated=name not in _UNGATED,
        is_tied=bool(merged.get("tie_word_embeddings", name in _TIED)),
        experts=_experts(merged),
        latent=_latent(merged),
        kinds=read_layers(merged, count=layers, hidden=hidden),
        encoder_layers=(_optional(merged, "encoder_layers") or 0) if name in _HEARING else 0,
        heard_tokens=(_optional(merged, "max_source_positions") or 0) if name in _HEARING else 0,
        max_context_tokens=_optional(
            merged, "max_position_embeddings", "n_positions", "seq_length", "max_target_positions"
        ),
        dtype_bytes=_dtype_bytes(merged),
    )


def _merged(config: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(config)
    for part in _PARTS:
        if isinstance(each := config.get(part), Mapping):
            merged |= _GRANTED.get(str(each.get("model_type")), {}) | dict(each)
    return merged


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
        dense_layers=_dense_layers(config),
    )


def _dense_layers(config: Mapping[str, Any]) -> int:
    """The first ones, or all but every so-many-th."""
    step = _optional(config, "interleave_moe_layer_step", "expert_layer_period", "decoder_sparse_step") or 1
    layers = _number(config, "num_hidden_layers", "n_layer", "num_layers", "n_layers")
    return _optional(config, "first_k_dense_replace") or layers - layers // step


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

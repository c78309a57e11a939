"""How many parameters a model has, and how many bytes they take as they are stored."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from apps.registry.policies.architecture import Architecture, ConfigError, Experts

# Bits of a weight, with its share of scales and zero points; and over whole files of llama.cpp's mixtures.
_FP8_BITS = 8.0
_GROUP_OVERHEAD_BITS = 16 + 4
_DEFAULT_GROUP = 128
_NF4_BITS = 4.5
_GGUF_BITS = {
    "F32": 32.0, "F16": 16.0, "BF16": 16.0, "Q8_0": 8.51, "Q6_K": 6.57, "Q5_K_M": 5.71, "Q5_K_S": 5.58, "Q5_1": 6.0,
    "Q5_0": 5.58, "Q4_K_M": 4.90, "Q4_K_S": 4.67, "Q4_1": 5.11, "Q4_0": 4.64, "IQ4_XS": 4.43, "Q3_K_L": 4.30,
    "Q3_K_M": 4.00, "Q3_K_S": 3.65, "Q2_K": 3.17,
}  # fmt: skip
_GGUF_NAME = re.compile(r"(?<![A-Z0-9])(IQ\d\w*|Q\d(?:_\d|_K(?:_[SML])?)|BF16|F16|F32)(?=[.\-_]|$)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Parameters:
    """`active` are those that one token meets; `experts` are part of `linear`.

    `embedding` is looked up or multiplied once per token, and keeps the model's own dtype when the rest is quantised.
    """

    linear: int
    embedding: int
    active: int
    experts: int = 0

    @property
    def total(self) -> int:
        return self.linear + self.embedding


@dataclass(frozen=True, kw_only=True, slots=True)
class Precision:
    """How the linear layers are stored. `name` is "" where they are in the model's own dtype.

    `is_of_experts`: only experts are, and the rest is in that.
    """

    name: str
    bits: float
    is_of_experts: bool = False


def count_parameters(model: Architecture) -> Parameters:
    kinds, hidden = model.kinds, model.hidden
    attention = kinds.attending * _attention(model) + kinds.recurrent * kinds.mixer_parameters
    if model.encoder_layers:  # and the decoder looks at what it heard
        encoder = 4 * hidden * hidden + 2 * hidden * model.feed_forward
        attention += model.layers * _attention(model) + model.encoder_layers * encoder
    dense, active = _feed_forward(model)
    norms = (2 * model.layers + 1) * model.hidden
    embedding = model.vocabulary * model.hidden * (1 if model.is_tied else 2)
    # The input embedding is a look-up of one row; the output one is multiplied whole.
    met = model.vocabulary * model.hidden
    return Parameters(
        linear=attention + dense + norms,
        embedding=embedding,
        active=attention + active + norms + met,
        experts=_expert_parameters(model),
    )


def _expert_parameters(model: Architecture) -> int:
    experts = model.experts
    if experts is None:
        return 0
    sparse_layers = model.layers - min(experts.dense_layers, model.layers)
    return sparse_layers * experts.count * (3 if model.is_gated else 2) * model.hidden * experts.size


def _attention(model: Architecture) -> int:
    latent = model.latent
    if latent is None:
        queries_and_output = 2 * model.hidden * model.heads * model.head_size
        return queries_and_output + 2 * model.hidden * model.kv_heads * model.head_size
    query_size = model.heads * (latent.nope_size + latent.rope_size)
    query = model.hidden * query_size
    if latent.query_rank:
        query = latent.query_rank * (model.hidden + query_size)
    compressed = model.hidden * (latent.kv_rank + latent.rope_size)
    expanded = latent.kv_rank * model.heads * (latent.nope_size + latent.value_size)
    return query + compressed + expanded + model.heads * latent.value_size * model.hidden


def _feed_forward(model: Architecture) -> tuple[int, int]:
    """Of all layers: all parameters, and those that one token meets."""
    matrices = 3 if model.is_gated else 2
    one_dense = matrices * model.hidden * model.feed_forward
    if model.experts is None:
        return model.kinds.fed_forward * one_dense, model.kinds.fed_forward * one_dense
    dense_layers = min(model.experts.dense_layers, model.layers)
    sparse_layers = model.layers - dense_layers
    every, met = _one_sparse(model, model.experts, matrices)
    return dense_layers * one_dense + sparse_layers * every, dense_layers * one_dense + sparse_layers * met


def _one_sparse(model: Architecture, experts: Experts, matrices: int) -> tuple[int, int]:
    one = matrices * model.hidden * experts.size
    always = matrices * model.hidden * experts.shared_size + model.hidden * experts.count
    return experts.count * one + always, experts.per_token * one + always


def read_precision(config: Mapping[str, Any], model: Architecture, *, quantisation: str = "") -> Precision:
    """From config.json's own quantization_config, or from the word that the operator gave (fp8, awq, gptq, Q4_K_M…)."""
    stored = config.get("quantization_config")
    if isinstance(stored, Mapping):
        return _stored_precision(stored)
    if not quantisation:
        return Precision(name="", bits=8 * model.dtype_bytes)
    return precision_named(quantisation)


def precision_named(word: str) -> Precision:
    """Raises ConfigError for a word that means nothing here."""
    lower = word.lower()
    if lower in {"fp8", "int8", "w8a8"}:
        return Precision(name=lower, bits=_FP8_BITS)
    if lower in {"awq", "gptq", "awq_marlin", "gptq_marlin", "int4", "w4a16"}:
        return Precision(name=lower, bits=4 + _GROUP_OVERHEAD_BITS / _DEFAULT_GROUP)
    if word.upper() in _GGUF_BITS:
        return Precision(name=word.upper(), bits=_GGUF_BITS[word.upper()])
    raise ConfigError(
        f"quantisation {word!r} is not known; there are fp8, int8, awq, gptq, and GGUF's Q4_K_M and so on"
    )


def _stored_precision(stored: Mapping[str, Any]) -> Precision:
    method = str(stored.get("quant_method") or stored.get("fmt") or "unknown").lower()
    if "fp4" in f"{method} {stored.get('quant_algo')}".lower():
        return _four_bit_floats(method)
    if method == "bitsandbytes":
        return Precision(name=method, bits=_NF4_BITS if stored.get("load_in_4bit") else 8.0)
    if method in {"fp8", "fbgemm_fp8", "modelopt"}:
        return Precision(name=method, bits=_FP8_BITS)
    bits = stored.get("bits") or stored.get("w_bit") or _bits_of_groups(stored)
    if not isinstance(bits, int) or isinstance(bits, bool) or not 1 <= bits <= 16:  # noqa: PLR2004 - no method stores more than half precision
        raise ConfigError("quantization_config in config.json does not say how many bits a weight has")
    group = stored.get("group_size") or stored.get("q_group_size") or _DEFAULT_GROUP
    overhead = _GROUP_OVERHEAD_BITS / group if isinstance(group, int) and group > 0 else 0.0
    return Precision(name=method, bits=bits + (overhead if bits < 8 else 0.0))  # noqa: PLR2004 - bytes have one scale a row


def _four_bit_floats(method: str) -> Precision:
    """MX has a scale of a byte for 32 weights, and is made for experts only; NV has one for 16."""
    return (
        Precision(name=method, bits=4.25, is_of_experts=True) if method == "mxfp4" else Precision(name=method, bits=4.5)
    )


def _bits_of_groups(stored: Mapping[str, Any]) -> Any:
    """compressed-tensors writes them per group of layers."""
    groups = stored.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    return weights.get("num_bits") if isinstance(weights, Mapping) else None


def weight_bytes(parameters: Parameters, model: Architecture, precision: Precision) -> int:
    """llama.cpp's mixtures count over the whole file; other methods leave the embeddings in the model's dtype."""
    if precision.name in _GGUF_BITS:
        return int(parameters.total * precision.bits / 8)
    stored = parameters.experts if precision.is_of_experts else parameters.linear
    return int(stored * precision.bits / 8 + (parameters.total - stored) * model.dtype_bytes)


def total_of_index(index: Mapping[str, Any]) -> int | None:
    """Of model.safetensors.index.json: exact, and includes what no formula knows."""
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    return int(total) if isinstance(total, int | float) and not isinstance(total, bool) and total > 0 else None


def gguf_precision(file_name: str) -> Precision | None:
    """By the habit of naming files after their mixture; None when the name does not say."""
    found = _GGUF_NAME.search(file_name.upper())
    return Precision(name=found[1], bits=_GGUF_BITS[found[1]]) if found and found[1] in _GGUF_BITS else None

"""Which of a model's layers attend, and so cache keys; which keep a state instead; which have a feed-forward."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STATE_ONLY = {"mamba", "mamba2", "falcon_mamba"}
# Every layer has both side by side.
_BOTH = {"falcon_h1"}
# They read a text at once, and keep nothing of it.
_ENCODERS = {
    "bert", "roberta", "xlm-roberta", "distilbert", "modernbert", "nomic_bert", "deberta", "deberta-v2", "electra",
    "mpnet", "new",
}  # fmt: skip
# Every so-many-th layer sees everything, where config.json does not say it.
_FULL_EVERY = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
_ATTENDING = {"full_attention", "sliding_attention", "chunked_attention", "attention", "hybrid"}
_CONVOLVED_TOKENS = 3
# Of Mamba's first kind: how wide what makes its steps is, as a part of the hidden size.
_HIDDEN_OF_A_STEP = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class Layers:
    """`attending` have attention, of which `cached` keep keys and values and `windowed` only those of a window.

    `recurrent` keep a state of `state_elements` for each sequence, made with `mixer_parameters`.
    """

    attending: int
    cached: int
    windowed: int = 0
    window_tokens: int | None = None
    recurrent: int = 0
    state_elements: int = 0
    mixer_parameters: int = 0
    fed_forward: int = 0


def read_layers(config: Mapping[str, Any], *, count: int, hidden: int) -> Layers:
    name = str(config.get("model_type"))
    attending = _attending(config, name, count)
    recurrent = count if name in _BOTH else _recurrent(config, count - attending)
    window, windowed = _window(config, name, attending)
    state, mixer = _mixer(config, hidden) if recurrent else (0, 0)
    return Layers(
        attending=attending,
        cached=0 if name in _ENCODERS else attending,
        windowed=windowed,
        window_tokens=window,
        recurrent=recurrent,
        state_elements=state,
        mixer_parameters=mixer,
        fed_forward=_fed_forward(config, name, count),
    )


def _attending(config: Mapping[str, Any], name: str, count: int) -> int:
    if name in STATE_ONLY:
        return 0
    pattern, indices = config.get("hybrid_override_pattern"), config.get("attn_layer_indices")
    if isinstance(pattern, str):
        return pattern.count("*")
    if isinstance(indices, list):
        return min(count, len(indices))
    for kinds in (config.get("layer_types"), config.get("layers_block_type")):
        if isinstance(kinds, list):
            return min(count, sum(kind in _ATTENDING for kind in kinds))
    period = _size(config, "attn_layer_period", "full_attention_interval")
    return count // period if period else count


def _recurrent(config: Mapping[str, Any], others: int) -> int:
    """Of some makers a layer is a feed-forward and nothing else."""
    pattern = config.get("hybrid_override_pattern")
    return pattern.count("M") if isinstance(pattern, str) else others


def _fed_forward(config: Mapping[str, Any], name: str, count: int) -> int:
    pattern = config.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return pattern.count("-")
    return 0 if name in STATE_ONLY else count


def _window(config: Mapping[str, Any], name: str, attending: int) -> tuple[int | None, int]:
    """The window, and how many layers have it."""
    window = _size(config, "sliding_window")
    if not window or config.get("use_sliding_window") is False:
        return None, 0
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        return window, kinds.count("sliding_attention")
    every = _size(config, "sliding_window_pattern", "_sliding_window_pattern") or _FULL_EVERY.get(name)
    return window, attending - attending // every if every else attending


def _mixer(config: Mapping[str, Any], hidden: int) -> tuple[int, int]:
    """Elements of a sequence's state, and parameters, of one layer."""
    values = _size(config, "linear_num_value_heads")
    return _linear_attention(config, hidden, values) if values else _state_space(config, hidden)


def _linear_attention(config: Mapping[str, Any], hidden: int, value_heads: int) -> tuple[int, int]:
    key_size, value_size = _size(config, "linear_key_head_dim"), _size(config, "linear_value_head_dim")
    keys, values = _size(config, "linear_num_key_heads") * key_size, value_heads * value_size
    state = value_heads * key_size * value_size + _CONVOLVED_TOKENS * (2 * keys + values)
    return state, hidden * (2 * keys + 3 * values)


def _state_space(config: Mapping[str, Any], hidden: int) -> tuple[int, int]:
    heads, head_size = (
        _size(config, "mamba_n_heads", "mamba_num_heads"),
        _size(config, "mamba_d_head", "mamba_head_dim"),
    )
    alone = _size(config, "intermediate_size") if config.get("model_type") in STATE_ONLY else 0
    inner = heads * head_size or alone or (_size(config, "mamba_expand", "expand") or 2) * hidden
    state = _size(config, "mamba_d_state", "ssm_state_size", "state_size") or 16
    groups = _size(config, "mamba_n_groups", "n_groups") if heads else 0
    mixed = inner + 2 * groups * state
    made_of = hidden * (inner + mixed + heads) + inner * hidden
    steps = 0 if heads else inner * 2 * (state + hidden // _HIDDEN_OF_A_STEP)
    return inner * state + _CONVOLVED_TOKENS * mixed, made_of + steps


def _size(config: Mapping[str, Any], *names: str) -> int:
    """0 where there is none, or no sensible one."""
    found = (config.get(name) for name in names)
    return next((each for each in found if type(each) is int and 0 < each < 2**40), 0)

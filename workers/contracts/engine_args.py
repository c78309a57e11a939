"""What `engine_args` of a version may say, by engine: the same structs read them on the node and check them before.

For vLLM, `extra` goes on its command line as it is. data/vllm_options.json lists the options of that command line, as
its own parser gives them (deploy/vllm_options.py writes it).
"""

from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, Literal

import msgspec
from msgspec import Struct, field

from workers.contracts.endpoints import BatchShape


class VLLMSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`extra` goes to vLLM as it is. `kv_cache_gib` counts on the CPU, `gpu_memory_utilization` on a GPU.

    `cost_profile` names the row of step costs to start from, where the model's name does not tell. With `kv_events`
    it publishes what its cache stores and drops, so that the gateway knows and need not guess. With `sleep_mode` it can
    be put to sleep on a GPU.
    """

    tensor_parallel_size: int = 1
    pipeline_parallel_size: int = 1
    gpu_memory_utilization: float = 0.9
    kv_cache_gib: int = 1
    kv_cache_dtype: Literal["auto", "fp8", "fp8_e4m3", "fp8_e5m2"] = "auto"
    max_num_batched_tokens: int | None = None
    cost_profile: str | None = None
    kv_events: bool = True
    sleep_mode: bool = False
    extra: list[str] = field(default_factory=list)


class LlamaCppSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`slots` are requests at once; by default what the spec allows, up to 8.

    With `batching` a model that embeds gets its requests gathered into calls, each of which is one request for it.
    """

    slots: int | None = None
    threads: int = -1
    batching: BatchShape | None = None


class FakeSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Options of `python -m workers.engines.fake` under their own names, with `_` for `-`; but for those named below.

    `batching` is for the gateway, which then takes it for an engine that does not batch by itself. `kv_events` is as
    vLLM's. `weights_repository` is fetched before it starts, as a real engine's is.
    """

    time_scale: float = 1.0
    max_num_batched_tokens: int | None = None
    num_gpu_blocks_override: int | None = None
    mean_output_tokens: int | None = None
    embedding_dimensions: int | None = None
    load_time_s: float = 0.0
    crash_after_tokens: int | None = None
    error_rate: float | None = None
    hang: Literal[True] | None = None
    enable_sleep_mode: Literal[True] | None = None
    weights_repository: str | None = None
    batching: BatchShape | None = None
    kv_events: bool = True


class VLLMOption(Struct, frozen=True, kw_only=True):
    """`kind` is flag, value or list; `type` int, float or text. Empty `choices` allow every value."""

    kind: str
    type: str = "text"
    choices: list[str] = []


SETTINGS: dict[str, type[Struct]] = {"vllm": VLLMSettings, "llamacpp": LlamaCppSettings, "fake": FakeSettings}
# The agent gives these itself; a second one would part the engine from what the control plane believes of it.
_OURS = {
    "--model": "source", "--served-model-name": "served_name", "--host": "the agent", "--port": "the control plane",
    "--max-num-seqs": "max_running_requests of the deployment", "--max-model-len": "max_context_tokens",
    "--api-key": "the gateway, which alone reaches engines", "--tensor-parallel-size": "tensor_parallel_size",
    "--enable-sleep-mode": "sleep_mode",
    "--pipeline-parallel-size": "pipeline_parallel_size", "--gpu-memory-utilization": "gpu_memory_utilization",
}  # fmt: skip


_DEFAULT_LORA_RANK, _DEFAULT_LORAS = 16, 1


def most_lora_rank(arguments: Mapping[str, Any]) -> int:
    """Of an adapter that vLLM loads."""
    return _number_of_extra(arguments, "--max-lora-rank", _DEFAULT_LORA_RANK)


def most_loras(arguments: Mapping[str, Any]) -> int:
    """Adapters at once in vLLM's memory."""
    return _number_of_extra(arguments, "--max-loras", _DEFAULT_LORAS)


def _number_of_extra(arguments: Mapping[str, Any], name: str, default: int) -> int:
    extra = arguments.get("extra")
    words = [word for each in extra for word in str(each).partition("=")[::2]] if isinstance(extra, list) else []
    after = [value for word, value in pairwise(word for word in words if word) if word.replace("_", "-") == name]
    return int(after[-1]) if after and after[-1].isdecimal() else default


@lru_cache(maxsize=1)
def vllm_options() -> dict[str, VLLMOption]:
    """By every name an option has, `--no-…` included."""
    content = files("workers.contracts").joinpath("data/vllm_options.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, VLLMOption])


def problem_of_engine_args(engine: str, arguments: Mapping[str, Any]) -> str:
    """Empty when the engine would take them; else the option and what is wrong with it."""
    kind = SETTINGS.get(engine)
    if kind is None:
        return f"no engine {engine!r}"
    try:
        settings = msgspec.convert(dict(arguments), kind)
    except msgspec.ValidationError as error:
        return f"{error}; {engine} takes: {', '.join(kind.__struct_fields__)}"
    return _problem_of_vllm(settings) if isinstance(settings, VLLMSettings) else ""


def _problem_of_vllm(settings: VLLMSettings) -> str:
    if not 0 < settings.gpu_memory_utilization <= 1:
        return "gpu_memory_utilization should be more than 0 and at most 1"
    if min(settings.tensor_parallel_size, settings.pipeline_parallel_size, settings.kv_cache_gib) < 1:
        return "tensor_parallel_size, pipeline_parallel_size and kv_cache_gib should be at least 1"
    return _problem_of_extra(settings.extra)


def _problem_of_extra(extra: list[str]) -> str:
    rest = list(extra)
    while rest:
        name, has_value, value = rest.pop(0).partition("=")
        option = vllm_options().get(name.replace("_", "-")) if name.startswith("--") else None
        if option is None:
            return f"extra: vLLM has no option {name!r}"
        if name in _OURS:
            return f"extra: {name} is set by {_OURS[name]}"
        values = [value] if has_value else _take_values(option, rest)
        if problem := _problem_of_values(name, option, values):
            return f"extra: {problem}"
    return ""


def _take_values(option: VLLMOption, rest: list[str]) -> list[str]:
    values: list[str] = []
    most = {"flag": 0, "value": 1}.get(option.kind, len(rest))
    while rest and len(values) < most and not rest[0].startswith("--"):
        values.append(rest.pop(0))
    return values


def _problem_of_values(name: str, option: VLLMOption, values: list[str]) -> str:
    if option.kind == "flag":
        return f"{name} takes no value" if values else ""
    if not values:
        return f"{name} needs a value"
    for value in values:
        if option.choices and value not in option.choices:
            return f"{name} should be one of {', '.join(option.choices)}, not {value!r}"
        if option.type in _READERS and not _is_read(option.type, value):
            return f"{name} should be {'a whole number' if option.type == 'int' else 'a number'}, not {value!r}"
    return ""


_READERS = {"int": int, "float": float}


def _is_read(kind: str, value: str) -> bool:
    try:
        _READERS[kind](value)
    except ValueError:
        return False
    return True

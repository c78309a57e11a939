"""The step costs that are known by name; data/step_costs.json says where they come from."""

from functools import cache
from importlib.resources import files

import msgspec

from workers.scheduling.latency.step_cost import StepCost

# How the names of devices and of models contain those of the rows; the longer before what it contains.
_GPUS = ("l40s", "h100", "h200", "b200", "a100", "l4", "a10")
_MODELS = {
    "llama3-8b": ("llama-3-8b", "llama-3.1-8b", "llama3-8b", "llama3.1-8b"),
    "llama3-70b": ("llama-3-70b", "llama-3.1-70b", "llama-3.3-70b", "llama3-70b", "llama3.1-70b", "llama3.3-70b"),
}


class _CostFile(msgspec.Struct):
    profiles: dict[str, StepCost]


@cache
def load_profiles() -> dict[str, StepCost]:
    """By `model/gpu/tpN`."""
    content = files("workers.engines").joinpath("data/step_costs.json").read_bytes()
    return msgspec.json.decode(content, type=_CostFile).profiles


def find_profile(*, model: str, gpu: str, tensor_parallel_size: int) -> str:
    """The row of a model on a device, by their usual names; "" when there is none, and the speed must be learned."""
    named_gpu = next((name for name in _GPUS if name in gpu.lower()), "")
    named_model = next((name for name, words in _MODELS.items() if any(word in model.lower() for word in words)), "")
    profile = f"{named_model}/{named_gpu}/tp{tensor_parallel_size}"
    return profile if profile in load_profiles() else ""

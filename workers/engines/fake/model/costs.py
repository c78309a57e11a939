"""The step costs that the fake engine knows by name; data/step_costs.json says where they come from."""

from importlib.resources import files

import msgspec

from workers.scheduling.latency.step_cost import StepCost


class _CostFile(msgspec.Struct):
    profiles: dict[str, StepCost]


def load_profiles() -> dict[str, StepCost]:
    """By `model/gpu/tpN`."""
    content = files("workers.engines.fake").joinpath("data/step_costs.json").read_bytes()
    return msgspec.json.decode(content, type=_CostFile).profiles

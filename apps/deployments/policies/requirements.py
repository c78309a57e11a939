"""What a deployment asks of machines, as people write it. Read strictly: a name that means nothing is refused."""

from typing import Annotated, Any, Literal
from uuid import UUID

import msgspec
from msgspec import Meta, Struct, field

Width = Annotated[int, Meta(ge=1, le=64)]
Share = Annotated[float, Meta(gt=0, le=1)]
Name = Annotated[str, Meta(max_length=63)]


class Requirements(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`on` "auto" is a GPU for vLLM where the fleet has any, else the host. None leaves it to the version's arguments.

    `memory_share` is the part of each GPU that a replica gets, beside others; without one it has its GPUs to itself
    unless `is_exclusive` says otherwise. `memory_gib` overrides the estimate. A pipeline that fits on no node is laid
    over several, unless `is_on_one_node`. `apart` keeps its replicas out of each
    other's "node" or value of that label; `avoids` are deployments that it shares no node with.
    """

    on: Literal["auto", "gpu", "mig", "cpu"] = "auto"
    tensor_parallel: Width | None = None
    pipeline_parallel: Width | None = None
    memory_share: Share | None = None
    memory_gib: Annotated[float, Meta(gt=0, le=100_000)] | None = None
    is_exclusive: bool | None = None
    needs_nvlink: bool = False
    is_on_one_node: bool = False
    gpu_models: list[Name] = field(default_factory=list)
    mig_profile: Name = ""
    labels: dict[Name, Name] = field(default_factory=dict)
    max_usd_per_h: Annotated[float, Meta(ge=0)] | None = None
    strategy: Literal["spread", "pack"] = "spread"
    apart: Name = ""
    avoids: list[UUID] = field(default_factory=list)


def read_requirements(content: Any) -> Requirements:
    """Raises ValueError, which names the field and what is wrong with it."""
    found = msgspec.convert(content, Requirements)
    if found.on == "mig" and max(found.tensor_parallel or 1, found.pipeline_parallel or 1) > 1:
        raise ValueError("no engine spans MIG slices: tensor_parallel and pipeline_parallel are 1 there")
    return found


def requirements_schema() -> dict[str, Any]:
    """As OpenAPI writes it."""
    whole: dict[str, Any] = msgspec.json.schema(Requirements)["$defs"][Requirements.__name__]
    one = {"properties": {"tensor_parallel": {"enum": [1, None]}, "pipeline_parallel": {"enum": [1, None]}}}
    of_slices = {"properties": {"on": {"const": "mig"}}, "required": ["on"]}
    return whole | {"if": of_slices, "then": one}

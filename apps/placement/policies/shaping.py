"""From what a deployment asks for, and what its version needs, to the shape that is placed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from apps.deployments.policies.requirements import Requirements
from apps.placement.policies.demand import Shape
from apps.placement.policies.fleet import CPU, GPU
from apps.placement.policies.objective import GIB

# Engines that know what to do with a GPU; the others run on the host unless a deployment says otherwise.
_GPU_ENGINES = {"vllm"}
# Agents start a part of them on each of several nodes.
_SPANNING_ENGINES = {"vllm", "fake"}
# vLLM's own default: who asks for no less wants the GPU for itself.
WHOLE_GPU_SHARE = 0.9


@dataclass(frozen=True, kw_only=True, slots=True)
class Widths:
    tensor_parallel: int
    pipeline_parallel: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Sizes:
    """Bytes on each GPU, None when nobody knows; by GPU model where it was measured."""

    anywhere: int | None = None
    by_model: tuple[tuple[str, int], ...] = ()


def widths_of(requirements: Requirements, engine_args: Mapping[str, Any]) -> Widths:
    """The deployment's word goes before the version's."""
    return Widths(
        tensor_parallel=requirements.tensor_parallel or _width(engine_args, "tensor_parallel_size"),
        pipeline_parallel=requirements.pipeline_parallel or _width(engine_args, "pipeline_parallel_size"),
    )


def shape_of(
    requirements: Requirements,
    *,
    engine: str,
    engine_args: Mapping[str, Any],
    has_gpus: bool,
    sizes_of: Callable[[Widths], Sizes],
) -> Shape:
    """`sizes_of` says what is needed on each of so many GPUs."""
    on: str = requirements.on
    if on == "auto":
        on = GPU if engine in _GPU_ENGINES and has_gpus else CPU
    common: dict[str, Any] = {
        "engine": engine,
        "on": on,
        "labels": tuple(sorted(requirements.labels.items())),
        "strategy": requirements.strategy,
        "apart": requirements.apart,
    }
    explicit = None if requirements.memory_gib is None else int(requirements.memory_gib * GIB)
    if on == CPU:
        return Shape(is_exclusive=False, memory_bytes=explicit, **common)
    widths, share = widths_of(requirements, engine_args), _share_of(requirements, engine_args)
    sizes = sizes_of(widths) if explicit is None else Sizes(anywhere=explicit)
    return Shape(
        tensor_parallel=widths.tensor_parallel,
        pipeline_parallel=widths.pipeline_parallel,
        memory_bytes=sizes.anywhere,
        memory_by_model=sizes.by_model,
        memory_share=share,
        is_exclusive=share is None if requirements.is_exclusive is None else requirements.is_exclusive,
        needs_nvlink=requirements.needs_nvlink,
        may_span=engine in _SPANNING_ENGINES and not requirements.is_on_one_node,
        models=tuple(sorted(requirements.gpu_models)),
        profile=requirements.mig_profile,
        max_usd_per_h=requirements.max_usd_per_h,
        **common,
    )


def _width(engine_args: Mapping[str, Any], name: str) -> int:
    value = engine_args.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 1


def _share_of(requirements: Requirements, engine_args: Mapping[str, Any]) -> float | None:
    if requirements.memory_share is not None:
        return requirements.memory_share
    value = engine_args.get("gpu_memory_utilization")
    is_part = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < WHOLE_GPU_SHARE
    return float(value) if is_part and value is not None else None

"""Why a node or an accelerator does not do, in numbers. An empty reason means that it does."""

from apps.placement.policies.board import UNKNOWN_BYTES, NodeState
from apps.placement.policies.demand import Shape
from apps.placement.policies.fleet import MIG, ONLINE, AcceleratorView, NodeView
from apps.placement.policies.objective import GIB


def reason_against_node(node: NodeView, shape: Shape) -> str:
    if why := _closed(node):
        return why
    if node.engines is not None and shape.engine not in node.engines:
        return f"cannot run {shape.engine}"
    if shape.on == MIG and shape.accelerator_count > 1:
        return "no engine spans MIG slices; ask for one bigger slice, or for whole GPUs"
    for name, value in shape.labels:
        if node.labels.get(name) != value:
            return f"its label {name} is {node.labels.get(name) or 'not set'}, not {value}"
    return "" if any(each.kind == shape.on for each in node.accelerators) else f"has no {shape.on}"


def _closed(node: NodeView) -> str:
    if node.is_draining:
        return "is being drained"
    if node.is_cordoned:
        return "is cordoned"
    return "" if node.state == ONLINE else f"is {node.state}"


def reason_against_kind(accelerator: AcceleratorView, shape: Shape) -> str:
    """What no other replica's leaving would change."""
    if accelerator.kind != shape.on:
        return f"is a {accelerator.kind}, not a {shape.on}"
    if not accelerator.is_healthy:
        return "is not healthy"
    if shape.models and accelerator.model not in shape.models:
        return f"is a {accelerator.model or 'GPU of unknown model'}, not {' or '.join(shape.models)}"
    if shape.profile and accelerator.profile != shape.profile:
        return f"is a slice {accelerator.profile or 'of no profile'}, not {shape.profile}"
    if shape.max_usd_per_h is not None and accelerator.usd_per_h > shape.max_usd_per_h:
        return f"costs {accelerator.usd_per_h:.2f} USD/h, more than {shape.max_usd_per_h:.2f}"
    return ""


def reason_against(state: NodeState, index: int, shape: Shape) -> str:
    accelerator = state.view.accelerators[index]
    return (
        reason_against_kind(accelerator, shape)
        or _reason_of_use(state, index, shape)
        or _too_small(state, index, shape)
    )


def is_usable(state: NodeState, index: int, shape: Shape) -> bool:
    """`reason_against` without its words, for the planner's inner loop; the kind is checked before."""
    if state.held[index] or (shape.is_exclusive and state.users[index]):
        return False
    accelerator, free = state.view.accelerators[index], state.free[index]
    needed = shape.needed_bytes(accelerator)
    if accelerator.memory_bytes is None:
        return not needed
    reserved = shape.reserved_bytes(accelerator)
    return reserved <= free and (needed or 0) <= (reserved or free)


def _reason_of_use(state: NodeState, index: int, shape: Shape) -> str:
    """Empty where it would be too small also if nobody else were there: then its size is what counts."""
    accelerator = state.view.accelerators[index]
    if accelerator.memory_bytes is not None and (shape.needed_bytes(accelerator) or 0) > accelerator.memory_bytes:
        return ""
    numbers = f": {free_words(state, index)}" if accelerator.memory_bytes is not None else ""
    if state.held[index]:
        return f"is held by a replica that does not share it{numbers}"
    if shape.is_exclusive and state.users[index]:
        count = state.users[index]
        return f"has {count} replica{'' if count == 1 else 's'} on it, and is wanted alone{numbers}"
    return ""


def _too_small(state: NodeState, index: int, shape: Shape) -> str:
    if is_usable(state, index, shape):
        return ""
    accelerator = state.view.accelerators[index]
    needed = shape.needed_bytes(accelerator) or 0
    if accelerator.memory_bytes is None or state.free[index] == UNKNOWN_BYTES:
        return f"does not say how much memory it has, and {gib(needed)} is needed"
    share = shape.reserved_bytes(accelerator)
    if needed > share and shape.memory_share is not None:
        return (
            f"a share of {shape.memory_share:.0%} is {gib(share)} of {gib(accelerator.memory_bytes)}, "
            f"and {gib(needed)} is needed"
        )
    return f"{gib(max(share, needed))} is needed, {free_words(state, index)}"


def free_words(state: NodeState, index: int) -> str:
    """Foreign memory is of this accelerator: a sum over a node would hide that one is full."""
    accelerator = state.view.accelerators[index]
    total, foreign = accelerator.memory_bytes or 0, accelerator.foreign_bytes
    reserved = total - foreign - state.free[index]
    return (
        f"{gib(state.free[index])} of {gib(total)} is free "
        f"({gib(max(0, reserved))} reserved by replicas, {gib(foreign)} used by others)"
    )


def gib(count_bytes: int) -> str:
    return f"{count_bytes / GIB:.1f} GiB"

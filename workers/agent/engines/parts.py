"""A node's part of an engine that is on several: it starts when all do, and ends for good when it ends. Pure.

What becomes of the whole is the control plane's to say, by a new run: no agent knows of the others' parts. A part that
has ended stays on record as the process it was, so that an agent that starts anew does not start it again either.
"""

from msgspec import structs

from workers.agent.engines.leaving import Step, killed
from workers.agent.engines.memory import Action, ActionKind, ProcessView, ReplicaMemory
from workers.contracts.desired import ReplicaSpec


def keep_still(step: Step) -> Step:
    """What would start but for the others: they all begin together, for none waits long for another."""
    for action in step.actions:
        part = action.spec.part
        if action.kind is ActionKind.START and part is not None and not part.may_start:
            return Step(step.memory, "placed", "waits until all parts are prepared", is_prepared=True)
    return step


def keep_follower(process: ProcessView, memory: ReplicaMemory) -> Step:
    """Nobody can ask it how it is: while it runs, it is well, and its leader answers for both."""
    if memory.is_killed:
        return killed(process, memory, memory.problem, "failed")
    return Step(structs.replace(memory, draining_since=None), "ready")


def part_ended(spec: ReplicaSpec, process: ProcessView) -> bool:
    """By itself, and in the run that is wanted still."""
    is_wanted = not spec.is_draining and not spec.is_asleep
    return process.spec.part is not None and is_wanted and spec.spec_hash == process.spec.spec_hash


def keep_ended(process: ProcessView, memory: ReplicaMemory) -> Step:
    """What it has left behind may hold memory still, and goes."""
    problem = memory.problem or process.exit_detail
    kill = () if memory.is_killed else (Action(kind=ActionKind.KILL, spec=process.spec),)
    return Step(structs.replace(memory, problem=problem, is_killed=True), "failed", problem, kill)


def let_go(memory: ReplicaMemory, process: ProcessView) -> Step:
    """Of a run before: how long to wait until the next one is the control plane's to say."""
    forget = (Action(kind=ActionKind.FORGET, spec=process.spec),)
    return Step(ReplicaMemory(restarts=memory.restarts + 1), "stopped", "", forget)


def has_nothing_left(spec: ReplicaSpec | None, process: ProcessView) -> bool:
    """A follower never has; a leader has when a part of its run has ended."""
    part = process.spec.part
    if part is None:
        return False
    return not part.leads or bool(spec and spec.part and spec.part.is_broken and spec.part.run > part.run)

"""Workloads by name."""

from collections.abc import Callable
from pathlib import Path
from random import Random

from workers.scheduling.latency.step_cost import StepCost
from workers.simulator.workloads import agents, bursts, chat, tenants, workflows
from workers.simulator.workloads.workload import Workload

Build = Callable[[Path, StepCost, float, float, float, Random], Workload]

WORKLOADS: dict[str, tuple[str, Build, float]] = {
    "W1": (chat.ENGINE, chat.build, 300.0),
    "W2": (agents.ENGINE, agents.build, 300.0),
    "W3": (tenants.ENGINE, tenants.build, 300.0),
    "W4": (bursts.ENGINE, bursts.build, 360.0),
    "W5": (workflows.ENGINE, workflows.build, 300.0),
}
"""Name → engine of the fleet, builder, seconds of trace time."""

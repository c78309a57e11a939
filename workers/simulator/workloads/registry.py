"""Workloads by name."""

from collections.abc import Callable

from msgspec import Struct

from workers.simulator.workloads import agents, bursts, chat, tenants, workflows
from workers.simulator.workloads.workload import Setting, Workload

Build = Callable[[Setting], Workload]


class Recipe(Struct, frozen=True):
    """`unit_per_s` is the rate of requests at a load of 1.0.

    The score table defines it as what a backlogged fleet completes, which depends on details of its workloads that
    are not published; these rates are set so that the best of the peers scores here what it scores in that table.
    """

    engine: str
    build: Build
    unit_per_s: float
    duration_s: float = 300.0


WORKLOADS: dict[str, Recipe] = {
    "W1": Recipe(chat.ENGINE, chat.build, 4.65),
    "W2": Recipe(agents.ENGINE, agents.build, 3.05),
    "W3": Recipe(tenants.ENGINE, tenants.build, 25.8),
    "W4": Recipe(bursts.ENGINE, bursts.build, 67.0, 360.0),
    "W5": Recipe(workflows.ENGINE, workflows.build, 3.0),
}

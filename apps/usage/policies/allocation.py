"""What the accelerators cost and who bears it, so that all parts add up to the whole. Pure.

For each node and quarter of an hour:

    available  = time its accelerators were there
    used_i     = engine time share of i (policies/sharing.py) x accelerators per engine,
                 all scaled down alike where together they exceed what was available
    idle       = available - sum of used_i
    cost_i     = cost of the accelerators x used_i / available, and likewise for idle

A node's idle time and its cost are then borne by those who used that node in the whole range, in proportion to what
they used; that of a node nobody used by everybody, likewise. With no use at all they stay with nobody.
"""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from apps.usage.policies.pricing import split_exactly

HOUR_US = 3_600_000_000
K = TypeVar("K", bound=Hashable)


@dataclass
class Amount:
    """Accelerator time and its cost."""

    time_us: int = 0
    cost_pico_usd: int = 0

    def add(self, time_us: int, cost_pico_usd: int) -> None:
        self.time_us += time_us
        self.cost_pico_usd += cost_pico_usd


@dataclass(frozen=True)
class NodeSlot(Generic[K]):
    """One node's quarter of an hour; `used_us` are accelerator times by whom they are for."""

    node: Hashable
    available: Amount
    used_us: Mapping[K, int]


@dataclass
class Bearer:
    used: Amount = field(default_factory=Amount)
    idle: Amount = field(default_factory=Amount)


@dataclass
class Allocation(Generic[K]):
    """`bearers` and `unborne` add up to `available`, to the microsecond and the picodollar."""

    available: Amount = field(default_factory=Amount)
    used: Amount = field(default_factory=Amount)
    idle: Amount = field(default_factory=Amount)
    bearers: dict[K, Bearer] = field(default_factory=dict)
    unborne: Amount = field(default_factory=Amount)


def allocate(slots: Iterable[NodeSlot[K]]) -> Allocation[K]:
    whole: Allocation[K] = Allocation()
    used_on: dict[Hashable, dict[K, int]] = {}
    idle_on: dict[Hashable, Amount] = {}
    for slot in slots:
        _share_slot(slot, whole, used_on.setdefault(slot.node, {}), idle_on.setdefault(slot.node, Amount()))
    everybody = {key: bearer.used.time_us for key, bearer in whole.bearers.items()}
    for node, idle in idle_on.items():
        users = used_on[node] if any(used_on[node].values()) else everybody
        _share_idle(idle, users, whole)
    return whole


def _share_slot(slot: NodeSlot[K], whole: Allocation[K], used_on: dict[K, int], idle_on: Amount) -> None:
    available_us, cost = slot.available.time_us, slot.available.cost_pico_usd
    keys = list(slot.used_us)
    times = [slot.used_us[key] for key in keys]
    if sum(times) > available_us:
        times = split_exactly(available_us, times)
    idle_us = available_us - sum(times)
    costs = split_exactly(cost, [*times, idle_us] if available_us else [*times, 1])
    for key, time_us, part in zip(keys, times, costs, strict=False):
        whole.bearers.setdefault(key, Bearer()).used.add(time_us, part)
        used_on[key] = used_on.get(key, 0) + time_us
    idle_on.add(idle_us, costs[-1])
    whole.available.add(available_us, cost)
    whole.idle.add(idle_us, costs[-1])
    whole.used.add(available_us - idle_us, cost - costs[-1])


def _share_idle(idle: Amount, used: Mapping[K, int], whole: Allocation[K]) -> None:
    if not sum(used.values()):
        whole.unborne.add(idle.time_us, idle.cost_pico_usd)
        return
    weights = list(used.values())
    times, costs = split_exactly(idle.time_us, weights), split_exactly(idle.cost_pico_usd, weights)
    for key, time_us, cost in zip(used, times, costs, strict=True):
        whole.bearers[key].idle.add(time_us, cost)

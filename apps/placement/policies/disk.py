"""Room for weights on the disks of nodes: what a replica must still fetch there, beside what others will.

Weights that are there already need none, and several replicas of one version on a node need theirs once.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from apps.placement.policies.demand import Demand
from apps.placement.policies.fleet import NodeView
from apps.placement.policies.objective import GIB
from workers.contracts.telemetry import DISK_MARGIN_BYTES


class Disks:
    """Of nodes by their numbers on a board."""

    def __init__(self, nodes: Sequence[NodeView]) -> None:
        self._nodes = nodes
        self._left = [_left_on(node) for node in nodes]
        self._planned: list[Counter[str]] = [Counter() for _ in nodes]

    def put(self, number: int, demand: Demand, *, sign: int) -> None:
        """`sign` -1 takes it off again; its weights go with the last of those that need them."""
        key = demand.weights_key
        if not demand.weights_bytes or self._is_there(number, key):
            return
        planned = self._planned[number]
        planned[key] += sign
        left = self._left[number]
        if left is not None and planned[key] == (1 if sign > 0 else 0):
            self._left[number] = left - sign * demand.weights_bytes

    def has_room(self, number: int, demand: Demand) -> bool:
        """A disk of which nothing is known has none for what is known to need some."""
        if not demand.weights_bytes or self._is_there(number, demand.weights_key):
            return True
        left = self._left[number]
        return self._planned[number][demand.weights_key] > 0 or (left is not None and demand.weights_bytes <= left)

    def missing_bytes(self, number: int, demand: Demand) -> int:
        """0 where it has room, or where nobody knows."""
        left = self._left[number]
        return 0 if left is None or self.has_room(number, demand) else demand.weights_bytes - left

    def reason_against(self, number: int, demand: Demand) -> str:
        if self.has_room(number, demand):
            return ""
        node, needed = self._nodes[number], f"{_gib(demand.weights_bytes)} of weights are to be fetched"
        if node.disk_free_bytes is None:
            return f"{needed}, and it does not say how much of its disk is free"
        promised = sum(node.coming.values())
        return (
            f"{needed}, {_gib(node.disk_free_bytes)} of its disk is free "
            f"({_gib(promised)} of that for weights on their way, {_gib(DISK_MARGIN_BYTES)} stays free)"
        )

    def _is_there(self, number: int, key: str) -> bool:
        node = self._nodes[number]
        return key in node.cached or key in node.coming


class Closed:
    """Numbers of nodes: those named, and all without room for these weights. Asked one by one, as it seldom matters."""

    def __init__(self, named: frozenset[int], disks: Disks, demand: Demand) -> None:
        self._named = named
        self._disks = disks
        self._demand = demand

    def __contains__(self, number: object) -> bool:
        return number in self._named or (isinstance(number, int) and not self._disks.has_room(number, self._demand))


def coming_with(node: NodeView, demand: Demand) -> Mapping[str, int]:
    """What is on its way to a node once the replica has a place there."""
    if not demand.weights_bytes or demand.weights_key in node.cached:
        return node.coming
    return {demand.weights_key: demand.weights_bytes} | dict(node.coming)


def _left_on(node: NodeView) -> int | None:
    if node.disk_free_bytes is None:
        return None
    return node.disk_free_bytes - DISK_MARGIN_BYTES - sum(node.coming.values())


def _gib(count_bytes: int) -> str:
    return f"{count_bytes / GIB:.1f} GiB"

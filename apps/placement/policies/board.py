"""The fleet while a plan is being made: what is free, who is where, and which nodes are alike."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from uuid import UUID

from apps.placement.policies.demand import APART_BY_NODE, Assignment, Demand, Shape, Stage
from apps.placement.policies.disk import Closed, Disks
from apps.placement.policies.fleet import NodeView

# A number for nodes that are alike: looked up for every replica and group, where a tuple would be hashed each time.
Signature = int
UNKNOWN_BYTES = -1


class NodeState:
    """`free[i]` is UNKNOWN_BYTES where the memory is unknown. `users[i]` counts replicas, `held[i]` exclusive ones."""

    __slots__ = ("deployments", "free", "held", "kind_id", "least_usd_per_h", "positions", "users", "view")

    def __init__(self, view: NodeView, kind_id: int) -> None:
        self.view = view
        self.kind_id = kind_id
        self.least_usd_per_h = min((each.usd_per_h for each in view.accelerators), default=0.0)
        self.positions = {each.key: index for index, each in enumerate(view.accelerators)}
        self.free = [
            UNKNOWN_BYTES if each.memory_bytes is None else max(0, each.memory_bytes - each.foreign_bytes)
            for each in view.accelerators
        ]
        self.users = [0] * len(self.free)
        self.held = [0] * len(self.free)
        self.deployments: Counter[UUID] = Counter()
        for occupant in view.occupants:
            indexes = [self.positions[key] for key in occupant.keys if key in self.positions]
            self.occupy(indexes, occupant.bytes_each, is_exclusive=occupant.is_exclusive, sign=1)
            for index in indexes if occupant.is_asleep else []:
                self.users[index] -= 1
            self.deployments[occupant.deployment_id] += 1

    def occupy(self, indexes: Iterable[int], bytes_each: int, *, is_exclusive: bool, sign: int) -> None:
        """`sign` -1 gives back what 1 took."""
        for index in indexes:
            if self.free[index] != UNKNOWN_BYTES:
                self.free[index] -= sign * bytes_each
            self.users[index] += sign
            self.held[index] += sign if is_exclusive else 0

    def likeness(self) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
        """Nodes of one likeness fit the same shapes at the same cost."""
        return (
            self.kind_id,
            tuple(self.free),
            tuple(2 * u + bool(h) for u, h in zip(self.users, self.held, strict=True)),
        )


class Board:
    """Nodes are numbered by name. `alike` groups them by signature, each group in that order.

    `kinds` has one node of each kind: nodes that are alike but for what is in use on them. `changes` are the numbers of
    those that have changed, in order, and `versions` how often each has.
    """

    def __init__(self, nodes: Sequence[NodeView], shapes: Iterable[Shape]) -> None:
        ordered = sorted(nodes, key=lambda node: node.name)
        self._label_names = sorted({name for shape in shapes for name, _ in shape.labels})
        kinds: dict[object, int] = {}
        self.nodes = [NodeState(node, kinds.setdefault(self._kind_of(node), len(kinds))) for node in ordered]
        self.kinds = list({state.kind_id: state for state in self.nodes}.values())
        self.numbers = {node.node_id: number for number, node in enumerate(ordered)}
        self.alike: dict[Signature, list[int]] = {}
        self._likenesses: dict[object, Signature] = {}
        self._signatures = [self._signature(state) for state in self.nodes]
        for number, signature in enumerate(self._signatures):
            self.alike.setdefault(signature, []).append(number)
        self._hosts: dict[UUID, Counter[int]] = {}
        self._avoided_by: dict[UUID, dict[UUID, None]] = {}
        for number, state in enumerate(self.nodes):
            for deployment_id, count in state.deployments.items():
                self._hosts.setdefault(deployment_id, Counter())[number] += count
            for occupant in state.view.occupants:
                self._note_avoidance(occupant.deployment_id, occupant.avoids)
        self._cached: dict[str, list[int]] = {}
        for number, node in enumerate(ordered):
            for key in sorted(node.cached | {engine.weights_key for engine in node.sleeping}):
                self._cached.setdefault(key, []).append(number)
        self.disks = Disks(ordered)
        self._domains: dict[str, dict[str, list[int]]] = {}
        self.changes: list[int] = []
        self.versions = [0] * len(self.nodes)

    def put(self, assignment: Assignment, *, sign: int = 1) -> None:
        """`sign` -1 takes it off again."""
        demand = assignment.demand
        for stage in assignment.stages:
            number = self.numbers[stage.node_id]
            state = self.nodes[number]
            indexes = [state.positions[key] for key in stage.keys]
            each = demand.shape.reserved_bytes(state.view.accelerators[indexes[0]])
            state.occupy(indexes, each, is_exclusive=demand.shape.is_exclusive, sign=sign)
            self._moved(number)
        for node_id in assignment.node_ids:
            number = self.numbers[node_id]
            self.nodes[number].deployments[demand.deployment_id] += sign
            self.disks.put(number, demand, sign=sign)
            self._note_change(number)
            self._hosts.setdefault(demand.deployment_id, Counter())[number] += sign
        self._note_avoidance(demand.deployment_id, demand.avoids)

    def _note_avoidance(self, deployment_id: UUID, avoids: Sequence[UUID]) -> None:
        for other in avoids:
            self._avoided_by.setdefault(other, {})[deployment_id] = None

    def _note_change(self, number: int) -> None:
        self.versions[number] += 1
        self.changes.append(number)

    def block(self, number: int, indexes: Sequence[int], *, sign: int = 1) -> None:
        """Keeps everybody off these accelerators until `sign` -1 gives them back."""
        for index in indexes:
            self.nodes[number].held[index] += sign
        self._moved(number)
        self._note_change(number)

    def stage(self, number: int, indexes: Sequence[int]) -> Stage:
        view = self.nodes[number].view
        return Stage(node_id=view.node_id, keys=tuple(view.accelerators[index].key for index in indexes))

    def signature_of(self, number: int) -> Signature:
        return self._signatures[number]

    def count_beside(self, number: int, deployment_id: UUID) -> int:
        return self.nodes[number].deployments.get(deployment_id, 0)

    def hosts_of(self, deployment_id: UUID) -> list[int]:
        return [number for number, count in self._hosts.get(deployment_id, {}).items() if count]

    def with_weights(self, weights_key: str) -> list[int]:
        return self._cached.get(weights_key, []) if weights_key else []

    def closed_to(self, demand: Demand, *, barred: frozenset[int]) -> Container[int]:
        """Nodes where it may not go, and those `barred` besides."""
        return Closed(barred, self.disks, demand) if demand.weights_bytes else barred

    def barred(self, demand: Demand) -> frozenset[int]:
        """Nodes that anti-affinity keeps it from."""
        return self.barred_by_others(demand) | self.barred_by_its_own(demand)

    def barred_by_others(self, demand: Demand) -> frozenset[int]:
        """Where a deployment is that it avoids, or that avoids it: it does not matter who came first."""
        others = [*demand.avoids, *self._avoided_by.get(demand.deployment_id, ())]
        return frozenset(number for other in others for number in self.hosts_of(other))

    def barred_by_its_own(self, demand: Demand) -> frozenset[int]:
        apart = demand.shape.apart
        hosts = self.hosts_of(demand.deployment_id) if apart else []
        return frozenset(number for host in hosts for number in self._neighbours(host, apart))

    def _neighbours(self, number: int, domain: str) -> list[int]:
        value = self.nodes[number].view.labels.get(domain)
        if domain == APART_BY_NODE or value is None:
            return [number]
        if domain not in self._domains:
            by_value: dict[str, list[int]] = {}
            for each, state in enumerate(self.nodes):
                by_value.setdefault(state.view.labels.get(domain, ""), []).append(each)
            self._domains[domain] = by_value
        return self._domains[domain][value]

    def _moved(self, number: int) -> None:
        group = self.alike[self._signatures[number]]
        del group[bisect_left(group, number)]
        if not group:
            del self.alike[self._signatures[number]]
        self._signatures[number] = self._signature(self.nodes[number])
        insort(self.alike.setdefault(self._signatures[number], []), number)

    def _signature(self, state: NodeState) -> Signature:
        return self._likenesses.setdefault(state.likeness(), len(self._likenesses))

    def _kind_of(self, node: NodeView) -> object:
        """All that decides about a fit and does not change while a plan is made."""
        labels = tuple(node.labels.get(name) for name in self._label_names)
        accelerators = tuple(
            (a.key, a.kind, a.model, a.memory_bytes, a.island, a.numa, a.usd_per_h, a.is_healthy, a.profile)
            for a in node.accelerators
        )
        return node.state, node.is_cordoned, node.is_draining, node.engines, labels, accelerators

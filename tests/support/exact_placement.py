"""The least cost that any plan could have, by OR-Tools' CP-SAT, for instances small enough to write every place down.

An independent reading of objective.py: places are all subsets of a node's GPUs, the prices are the constraints' own.
"""

from itertools import combinations, pairwise, permutations

from ortools.sat.python import cp_model

from apps.placement.policies.fleet import MIG, ONLINE
from apps.placement.policies.objective import PRICES
from tests.support.placement_rules import bytes_on, is_same_domain

_SCALE = 10_000  # CP-SAT counts in integers: a hundredth of a cent
_GIB = 1024**3


def least_cost(nodes, demands):
    return _Exact(nodes, demands).solve() / _SCALE


class _Exact:
    def __init__(self, nodes, demands):
        self.model = cp_model.CpModel()
        self.nodes = nodes
        self.demands = demands
        self.cost = []
        self.choices = {d.replica_id: self._choices_of(d) for d in demands}
        self._place_each_once()
        self._share_gpus()
        self._open_nodes_and_islands()
        self._spread()
        self._share_disks()

    def solve(self):
        self.model.minimize(sum(self.cost))
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = 30
        assert solver.solve(self.model) == cp_model.OPTIMAL
        return solver.objective_value

    def _choices_of(self, demand):
        """Pairs of a variable and the place it stands for: a tuple of (node number, GPU numbers) per stage."""
        stages = [(n, group) for n in range(len(self.nodes)) for group in self._groups(n, demand.shape)]
        if demand.shape.pipeline_parallel == 1:
            places = [(stage,) for stage in stages]
        else:
            places = [pair for pair in permutations(stages, 2) if self._may_pair(*pair, demand.shape)]
        return [(self.model.new_bool_var(""), place) for place in places]

    def _groups(self, number, shape):
        """Only what anti-affinity and others' memory may still forbid."""
        node = self.nodes[number]
        if not _takes(node, shape):
            return []
        usable = [i for i, gpu in enumerate(node.accelerators) if _does(gpu, shape)]
        groups = combinations(usable, shape.tensor_parallel)
        return [group for group in groups if _may_work_together([node.accelerators[i] for i in group], shape)]

    def _may_pair(self, one, two, shape):
        models = {self.nodes[n].accelerators[g].model for n, group in (one, two) for g in group}
        if one[0] == two[0]:
            return len(models) == 1 and not set(one[1]) & set(two[1])
        return len(models) == 1 and shape.may_span

    def _place_each_once(self):
        for demand in self.demands:
            variables = [variable for variable, _ in self.choices[demand.replica_id]]
            unplaced = self.model.new_bool_var("")
            self.model.add(sum(variables) + unplaced == 1)
            self.cost.append(_scaled(PRICES.unplaced_usd * demand.shape.accelerator_count) * unplaced)
            for variable, place in self.choices[demand.replica_id]:
                self.cost.append(_scaled(self._own_price(demand, place)) * variable)

    def _own_price(self, demand, place):
        fetched = 0 if demand.weights_key in self.nodes[place[0][0]].cached else demand.weights_bytes
        price = PRICES.start_usd + PRICES.fetch_usd_per_gib * fetched / _GIB
        for (before, _), (after, group) in pairwise(place):
            price += PRICES.hop_ratio * self._price_of(after, group) * (before != after)
        return price + sum(self._link_price(number, group) for number, group in place)

    def _price_of(self, number, group):
        return sum(self.nodes[number].accelerators[each].usd_per_h for each in group)

    def _link_price(self, number, group):
        gpus = [self.nodes[number].accelerators[each] for each in group]
        islands, numas = {each.island for each in gpus}, {each.numa for each in gpus}
        ratio = PRICES.pcie_ratio * (len(islands) > 1 or None in islands) + PRICES.numa_ratio * (len(numas) > 1)
        return ratio * self._price_of(number, group) * (len(group) > 1)

    def _users_of(self, number, index):
        return [
            (variable, demand.shape)
            for demand in self.demands
            for variable, place in self.choices[demand.replica_id]
            if any(n == number and index in group for n, group in place)
        ]

    def _share_gpus(self):
        self.opened = {}
        for number, node in enumerate(self.nodes):
            for index, gpu in enumerate(node.accelerators):
                self._share_one(number, index, node, gpu)

    def _share_one(self, number, index, node, gpu):
        users = self._users_of(number, index)
        there = [each for each in node.occupants if gpu.key in each.keys]
        free = (gpu.memory_bytes or 0) - gpu.foreign_bytes - sum(each.bytes_each for each in there)
        self.model.add(sum(v * bytes_on(shape, gpu)[0] for v, shape in users) <= max(0, free))
        there = [each for each in there if not each.is_asleep]
        alone = [v for v, shape in users if shape.is_exclusive]
        shared = [v for v, shape in users if not shape.is_exclusive]
        self.model.add(sum(alone) <= (0 if there else 1))
        if any(each.is_exclusive for each in there):
            self.model.add(sum(shared) == 0)
        for variable in shared:
            self.model.add(sum(alone) == 0).only_enforce_if(variable)
        opened = 1 if there else self.model.new_bool_var("")
        self.opened[number, index] = opened
        if not there:
            self.model.add_max_equality(opened, [v for v, _ in users] or [0])
            self.cost.append(_scaled(gpu.usd_per_h) * opened)

    def _open_nodes_and_islands(self):
        for number, node in enumerate(self.nodes):
            flags = {i: self.opened[number, i] for i in range(len(node.accelerators))}
            if all(each.is_asleep for each in node.occupants):
                price = PRICES.node_ratio * sum(each.usd_per_h for each in node.accelerators)
                self.cost.append(_scaled(price) * self._any(flags.values()))
            for island in {each.island for each in node.accelerators} - {None}:
                members = [i for i, each in enumerate(node.accelerators) if each.island == island]
                self._open_island(node, {i: flags[i] for i in members})

    def _open_island(self, node, flags):
        """Counted from what was unused before, as the planner does: it adds up changes."""
        is_used = any(isinstance(flag, int) for flag in flags.values())
        prices = {i: _scaled(PRICES.unused_ratio * node.accelerators[i].usd_per_h) for i in flags}
        if not is_used:
            self.cost.append(sum(prices.values()) * self._any(flags.values()))
        self.cost += [-prices[i] * flag for i, flag in flags.items() if not isinstance(flag, int)]

    def _any(self, flags):
        found = self.model.new_bool_var("")
        self.model.add_max_equality(found, list(flags))
        return found

    def _share_disks(self):
        """Weights are fetched once for all replicas of a node that load them; a gibibyte stays free."""
        for number, node in enumerate(self.nodes):
            needing = {}
            for demand in self.demands:
                if demand.weights_bytes and demand.weights_key not in {*node.cached, *node.coming}:
                    places = self.choices[demand.replica_id]
                    here = [variable for variable, place in places if any(n == number for n, _ in place)]
                    needing.setdefault((demand.weights_key, demand.weights_bytes), []).extend(here)
            fetched = [size // _GIB * self._any(here) for (_, size), here in needing.items() if here]
            room = -1 if node.disk_free_bytes is None else node.disk_free_bytes - _GIB - sum(node.coming.values())
            self.model.add(sum(fetched) <= max(0, room // _GIB))

    def _spread(self):
        for deployment_id in {demand.deployment_id for demand in self.demands}:
            mine = [demand for demand in self.demands if demand.deployment_id == deployment_id]
            for number, node in enumerate(self.nodes):
                self._beside(mine, number)
                if apart := mine[0].shape.apart:
                    self._apart(mine, {i for i, other in enumerate(self.nodes) if is_same_domain(node, other, apart)})
        for one, other in permutations(self.demands, 2):
            if other.deployment_id in one.avoids:
                self._avoid(one, other)

    def _beside(self, mine, number):
        there = [v for demand in mine for v in self._on(demand, {number})]
        already_there = self._occupants(mine[0].deployment_id, {number})
        if mine[0].shape.strategy == "spread":
            steps = [self.model.new_bool_var("") for _ in mine]
            self.model.add(sum(steps) == sum(there))
            prices = [_scaled(PRICES.side_by_side_usd * (already_there + before)) for before in range(len(mine))]
            self.cost += [price * step for price, step in zip(prices, steps, strict=True)]
        if any(self._is_avoided(mine[0], each) for each in self.nodes[number].occupants):
            self.model.add(sum(there) == 0)

    def _is_avoided(self, demand, occupant):
        return occupant.deployment_id in demand.avoids or demand.deployment_id in occupant.avoids

    def _apart(self, mine, domain):
        there = [v for demand in mine for v in self._on(demand, domain)]
        self.model.add(sum(there) <= (0 if self._occupants(mine[0].deployment_id, domain) else 1))

    def _avoid(self, one, other):
        for number in range(len(self.nodes)):
            self.model.add(sum(self._on(one, {number})) + sum(self._on(other, {number})) <= 1)

    def _on(self, demand, numbers):
        """The variables of its places that touch these nodes."""
        return [v for v, place in self.choices[demand.replica_id] if any(n in numbers for n, _ in place)]

    def _occupants(self, deployment_id, numbers):
        return sum(each.deployment_id == deployment_id for n in numbers for each in self.nodes[n].occupants)


def _takes(node, shape):
    labels = all(node.labels.get(name) == value for name, value in shape.labels)
    is_open = node.state == ONLINE and not node.is_cordoned and not node.is_draining
    return is_open and labels and (node.engines is None or shape.engine in node.engines)


def _does(gpu, shape):
    is_kind = gpu.kind == shape.on and gpu.is_healthy and (shape.on != MIG or shape.accelerator_count == 1)
    is_model = (not shape.models or gpu.model in shape.models) and (not shape.profile or gpu.profile == shape.profile)
    is_cheap = shape.max_usd_per_h is None or gpu.usd_per_h <= shape.max_usd_per_h
    reserved, needed = bytes_on(shape, gpu)
    return is_kind and is_model and is_cheap and gpu.memory_bytes is not None and needed <= reserved


def _may_work_together(group, shape):
    if len({(gpu.model, gpu.memory_bytes) for gpu in group}) > 1:
        return False
    is_linked = group[0].island is not None and len({gpu.island for gpu in group}) == 1
    return not shape.needs_nvlink or len(group) == 1 or is_linked


def _scaled(usd):
    return round(usd * _SCALE)

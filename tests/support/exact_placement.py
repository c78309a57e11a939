"""The least cost that any plan could have, by OR-Tools' CP-SAT, for instances small enough to write every place down.

An independent reading of objective.py: places are all subsets of a node's GPUs, the prices are the constraints' own.
"""

from itertools import combinations, pairwise, permutations

from ortools.sat.python import cp_model

from apps.placement.policies.objective import PRICES

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
            places = [pair for pair in permutations(stages, 2) if self._may_pair(*pair)]
        return [(self.model.new_bool_var(""), place) for place in places]

    def _groups(self, number, shape):
        node = self.nodes[number]
        usable = [i for i, a in enumerate(node.accelerators) if not shape.models or a.model in shape.models]
        return combinations(usable, shape.tensor_parallel)

    def _may_pair(self, one, two):
        models = {self.nodes[n].accelerators[g].model for n, group in (one, two) for g in group}
        return len(models) == 1 and not (one[0] == two[0] and set(one[1]) & set(two[1]))

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
        free = gpu.memory_bytes - gpu.foreign_bytes - sum(each.bytes_each for each in there)
        self.model.add(sum(v * (shape.memory_bytes // _GIB) for v, shape in users) <= max(0, free) // _GIB)
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
            if not node.occupants:
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

    def _spread(self):
        for deployment_id in {demand.deployment_id for demand in self.demands}:
            mine = [demand for demand in self.demands if demand.deployment_id == deployment_id]
            for number in range(len(self.nodes)):
                self._beside(mine, number)

    def _beside(self, mine, number):
        there = [
            v for demand in mine for v, place in self.choices[demand.replica_id] if any(n == number for n, _ in place)
        ]
        if mine[0].shape.apart == "node":
            self.model.add(sum(there) <= 1)
        if mine[0].shape.strategy == "spread":
            steps = [self.model.new_bool_var("") for _ in mine]
            self.model.add(sum(steps) == sum(there))
            self.cost += [_scaled(PRICES.side_by_side_usd * already) * step for already, step in enumerate(steps)]


def _scaled(usd):
    return round(usd * _SCALE)

"""Plans beside the least cost that any plan could have. The objective is apps/placement/policies/objective.py's."""

import pytest

from apps.placement.policies.planning import make_plan
from tests.support.exact_placement import least_cost
from tests.support.fleets import random_demands, random_fleet, seeded

pytestmark = pytest.mark.unit

INSTANCES = 200
PER_TEST = 10
ROUNDS = 1000
ROUNDING_USD = 0.01


@pytest.mark.parametrize("first", range(0, INSTANCES, PER_TEST))
def test_a_plan_costs_at_most_five_per_cent_more_than_the_best_there_is(first):
    for seed in range(first, first + PER_TEST):
        random = seeded(seed)
        nodes, demands = random_fleet(random), random_demands(random)
        plan = make_plan(nodes, demands, rounds=ROUNDS, random=seeded(1))
        best = least_cost(nodes, demands)
        assert best - ROUNDING_USD <= plan.cost_usd_per_h <= 1.05 * best, f"instance {seed}"

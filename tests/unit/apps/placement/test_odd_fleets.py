"""Everything of placement at once: no plan and no move breaks a rule, and no plan is much dearer than the best."""

from dataclasses import replace

import pytest

from apps.placement.policies.explaining import as_if_applied, explain
from apps.placement.policies.planning import make_plan
from apps.placement.policies.repacking import Running, propose_moves
from tests.support.exact_placement import least_cost
from tests.support.fleets import seeded
from tests.support.odd_fleets import odd_instance
from tests.support.placement_rules import broken_rules

pytestmark = pytest.mark.unit

PER_TEST = 20
ROUNDING_USD = 0.02


def instances(first):
    for seed in range(first, first + PER_TEST):
        yield seed, *odd_instance(seeded(seed))


def placed(plan):
    return [(each.demand, each.stages) for each in plan.assignments]


@pytest.mark.parametrize("first", range(0, 100, PER_TEST))
@pytest.mark.parametrize("rounds", [0, 200])
def test_no_plan_breaks_a_rule(first, rounds):
    for seed, nodes, demands in instances(first):
        plan = make_plan(nodes, demands, rounds=rounds, random=seeded(1))
        assert broken_rules(nodes, placed(plan)) == [], f"instance {seed}"


@pytest.mark.parametrize("first", range(0, 40, PER_TEST))
def test_a_plan_costs_at_most_five_per_cent_more_than_the_best_there_is(first):
    for seed, nodes, demands in instances(first):
        plan = make_plan(nodes, demands, rounds=1000, random=seeded(1))
        best = least_cost(nodes, demands)
        assert best - ROUNDING_USD <= plan.cost_usd_per_h <= 1.05 * best + ROUNDING_USD, f"instance {seed}"


@pytest.mark.parametrize("first", range(0, 100, PER_TEST))
def test_what_runs_may_move_and_still_no_rule_is_broken(first):
    for seed, nodes, demands in instances(first):
        plan = make_plan(nodes, demands)
        running = [Running(demand=each.demand, stages=each.stages) for each in plan.assignments]
        found = propose_moves(as_if_applied(nodes, plan.assignments), running, rounds=200, random=seeded(2))
        after = {move.replica_id: move.after for move in found.moves}
        moved = [(each.demand, after.get(each.demand.replica_id, each.stages)) for each in running]
        assert broken_rules(nodes, moved) == [], f"instance {seed}"


@pytest.mark.parametrize("first", range(0, 100, PER_TEST))
def test_who_has_no_place_is_told_why_by_every_node(first):
    for seed, nodes, demands in instances(first):
        plan = make_plan(nodes, demands)
        full = as_if_applied(nodes, plan.assignments)
        for demand in plan.unplaced:
            alone = replace(demand, shape=replace(demand.shape, may_span=False))
            told = {refusal.node_id for refusal in explain(full, alone)}
            assert told == {node.node_id for node in nodes}, f"instance {seed}"

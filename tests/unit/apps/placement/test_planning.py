from uuid import UUID

import pytest

from apps.placement.policies.fleet import CPU, MIG, AcceleratorView, SleepingEngine
from apps.placement.policies.planning import make_plan
from tests.support.fleets import GIB, box, demand, gpu, node, occupant, seeded

pytestmark = pytest.mark.unit


def places(nodes, *demands, **options):
    """Of each replica: the number of its node and its accelerators, per stage; None without a place."""
    plan = make_plan(nodes, demands, **options)
    found = {each.demand.replica_id: each for each in plan.assignments}
    return [
        [(stage.node_id.int, "".join(stage.keys)) for stage in found[each.replica_id].stages]
        if each.replica_id in found
        else None
        for each in demands
    ]


def test_one_model_per_gpu():
    assert places([box(1, count=2)], demand(1), demand(2, deployment=2), demand(3, deployment=3)) == [
        [(1, "0")],
        [(1, "1")],
        None,
    ]


def test_several_models_share_a_gpu_up_to_the_last_byte_of_its_memory():
    thirds = [demand(i, deployment=i, gib=20, memory_share=0.25, is_exclusive=False) for i in range(1, 6)]
    assert places([node(1, gpu(0))], *thirds) == [[(1, "0")]] * 4 + [None]


def test_a_share_smaller_than_the_need_is_refused():
    assert places([node(1, gpu(0))], demand(gib=40, memory_share=0.4, is_exclusive=False)) == [None]


def test_a_gpu_that_is_shared_is_not_given_away_whole_nor_the_other_way_round():
    shared = node(1, gpu(0), occupants=(occupant(1, "0", gib=8, is_exclusive=False),))
    whole = node(2, gpu(0), occupants=(occupant(2, "0", gib=8),))
    assert places([shared, whole], demand(gib=10)) == [None]
    assert places([shared, whole], demand(gib=10, is_exclusive=False)) == [[(1, "0")]]


def test_tensor_parallel_stays_inside_an_nvlink_island_where_one_has_room():
    two_islands = node(1, *(gpu(i, island=i // 2, numa=0) for i in range(4)), occupants=(occupant(1, "0"),))
    assert places([two_islands], demand(tensor_parallel=2)) == [[(1, "23")]]


@pytest.mark.parametrize("usd_per_h", [1.0, 8.5])
def test_nor_is_it_split_over_two_islands_because_a_gpu_of_each_is_used_already(usd_per_h):
    gpus = [gpu(i, island=i // 4, numa=0, usd_per_h=usd_per_h) for i in range(8)]
    used = [occupant(number, key, gib=20, is_exclusive=False) for number, key in enumerate("15")]
    ((_, keys),) = places([node(1, *gpus, occupants=tuple(used))], demand(tensor_parallel=2, is_exclusive=False))[0]
    assert len({int(key) // 4 for key in keys}) == 1


def test_an_nvlink_machine_is_worth_more_than_a_cheaper_one_with_pcie():
    pcie, nvlink = box(1, "A100-80", count=2, nvlink=False), box(2, "A100-80", count=2)
    assert places([pcie, nvlink], demand(tensor_parallel=2)) == [[(2, "01")]]
    assert places([pcie], demand(tensor_parallel=2)) == [[(1, "01")]]
    assert places([pcie], demand(tensor_parallel=2, needs_nvlink=True)) == [None]


def test_a_group_stays_on_one_numa_node():
    busy = box(1, count=8, nvlink=False, occupants=(occupant(1, "0"), occupant(2, "1"), occupant(3, "2")))
    assert places([busy], demand(tensor_parallel=2)) == [[(1, "45")]]


def test_a_pipeline_goes_over_nodes_only_when_one_node_does_not_hold_it():
    pipeline = demand(tensor_parallel=4, pipeline_parallel=2)
    assert places([box(1, count=4), box(2, count=8)], pipeline) == [[(2, "0123"), (2, "4567")]]
    assert places([box(1, count=4), box(2, count=4)], pipeline) == [[(1, "0123"), (2, "0123")]]


def test_the_stages_of_a_pipeline_are_of_one_gpu_model():
    pipeline = demand(tensor_parallel=4, pipeline_parallel=2)
    assert places([box(1, "H100", count=4), box(2, "H200", count=4)], pipeline) == [None]


def test_a_mig_slice_serves_what_asks_for_slices():
    slices = [
        AcceleratorView(key=f"0/{i}", kind=MIG, model="H100", memory_bytes=gib * GIB, profile=profile)
        for i, (gib, profile) in enumerate([(10, "1g.10gb"), (40, "3g.40gb")])
    ]
    sliced = node(1, *slices)
    assert places([sliced], demand(gib=8, on=MIG)) == [[(1, "0/0")]]
    assert places([sliced], demand(gib=8, on=MIG, profile="3g.40gb")) == [[(1, "0/1")]]
    assert places([sliced], demand(gib=8)) == [None]


def test_the_cheapest_generation_that_fits_is_taken():
    nodes = [box(1, "H200", count=1), box(2, "L4", count=1), box(3, "A100-80", count=1)]
    assert places(nodes, demand(1, gib=20), demand(2, deployment=2, gib=60)) == [[(2, "0")], [(3, "0")]]
    assert places(nodes, demand(gib=20, models=("H200", "H100"))) == [[(1, "0")]]
    assert places(nodes, demand(gib=60, max_usd_per_h=2.0)) == [None]


def test_replicas_spread_or_are_packed():
    nodes = [box(1, count=4), box(2, count=4)]
    spread = [demand(i, strategy="spread") for i in (1, 2)]
    packed = [demand(i, strategy="pack") for i in (1, 2)]
    assert [stages[0][0] for stages in places(nodes, *spread)] == [1, 2]
    assert [stages[0][0] for stages in places(nodes, *packed)] == [1, 1]


def test_anti_affinity_is_kept_by_node_and_by_label():
    racks = [box(1, labels={"rack": "a"}), box(2, labels={"rack": "a"}), box(3, labels={"rack": "b"})]
    by_rack = places(racks, *(demand(i, apart="rack", strategy="pack") for i in (1, 2, 3)))
    assert [stages and stages[0][0] for stages in by_rack] == [1, 3, None]
    assert places([box(1)], demand(1, apart="node"), demand(2, apart="node")) == [[(1, "0")], None]


def test_a_deployment_stays_away_from_those_it_avoids():
    taken = box(1, occupants=(occupant(1, "0", deployment=7),))
    assert places([taken], demand(avoids=(7,))) == [None]
    assert places([taken, box(2)], demand(avoids=(7,))) == [[(2, "0")]]


def test_cached_weights_and_a_sleeping_engine_are_preferred():
    cold, warm = box(1), box(2, cached=frozenset({"w"}))
    asleep = box(3, cached=frozenset({"w"}), sleeping=(SleepingEngine(weights_key="w", keys=("5",)),))
    one = demand(weights_key="w", weights_gib=60)
    assert places([cold, warm], one) == [[(2, "0")]]
    assert places([cold, warm, asleep], one) == [[(3, "5")]]


def test_an_engine_that_sleeps_where_the_replica_may_not_be_is_not_woken():
    asleep = SleepingEngine(weights_key="w", keys=("0",))
    there = box(1, count=1, sleeping=(asleep,))
    elsewhere = box(1, count=1, sleeping=(asleep,), labels={"zone": "b"})
    assert places([there], demand(weights_key="w", on="mig", gib=4)) == [None]
    assert places([there], demand(weights_key="w", models=("H200",))) == [None]
    assert places([there], demand(weights_key="w", max_usd_per_h=1.0)) == [None]
    assert places([elsewhere], demand(weights_key="w", labels=(("zone", "a"),))) == [None]


def test_a_small_replica_breaks_no_whole_island_while_a_broken_one_has_room():
    whole, broken = box(1), box(2, occupants=(occupant(1, "0"),))
    assert places([whole, broken], demand()) == [[(2, "1")]]


def test_foreign_memory_is_subtracted_from_its_own_gpu_and_not_from_the_sum():
    gpus = (gpu(0, foreign_bytes=70 * GIB), gpu(1), gpu(2, foreign_bytes=30 * GIB))
    assert places([node(1, *gpus)], demand(1, gib=79), demand(2, deployment=2, gib=79)) == [[(1, "1")], None]
    assert places([node(1, *gpus)], demand(gib=79, tensor_parallel=2)) == [None]


def test_unknown_is_not_zero():
    unknown = node(1, gpu(0, gib=80), gpu(1, gib=80, foreign_bytes=20 * GIB))
    assert places([unknown], demand(1, gib=None), demand(2, deployment=2, gib=None)) == [[(1, "0")], None]
    silent = node(1, AcceleratorView(key="0", kind="gpu"))
    assert places([silent], demand(gib=1)) == [None]


def test_a_replica_without_a_gpu_goes_to_the_host_and_many_go_there():
    host = node(1, AcceleratorView(key="cpu", kind=CPU), engines=None)
    small = [demand(i, gib=None, on=CPU, is_exclusive=False, engine="fake") for i in (1, 2, 3)]
    assert places([host], *small) == [[(1, "cpu")]] * 3


@pytest.mark.parametrize(
    "facts", [{"is_cordoned": True}, {"state": "offline"}, {"is_draining": True}, {"engines": frozenset()}]
)
def test_nothing_goes_to_a_node_that_should_get_nothing(facts):
    assert places([box(1, **facts)], demand()) == [None]


def test_an_unhealthy_gpu_gets_nothing():
    assert places([node(1, gpu(0, is_healthy=False))], demand()) == [None]


def test_what_runs_is_not_moved_and_the_order_of_nodes_and_demands_changes_nothing():
    nodes = [box(i, random_model) for i, random_model in enumerate(["H100", "L4", "H200"], start=1)]
    demands = [demand(i, deployment=i % 3, gib=10 + i) for i in range(1, 12)]
    one = make_plan(nodes, demands)
    other = make_plan(nodes[::-1], demands[::-1])
    assert {a.demand.replica_id: a.stages for a in one.assignments} == {
        a.demand.replica_id: a.stages for a in other.assignments
    }


def test_the_prices_of_the_parts_add_up_to_the_plans():
    nodes = [box(1), box(2, "L4")]
    plan = make_plan(nodes, [demand(i, deployment=i, gib=20) for i in range(1, 20)], rounds=50, random=seeded(1))
    assert plan.cost_usd_per_h == pytest.approx(
        sum(each.usd_per_h for each in plan.assignments) + 1000 * len(plan.unplaced)
    )
    assert len(plan.unplaced) == 3


def test_improving_never_makes_a_plan_dearer():
    random = seeded(5)
    nodes = [box(i, random.choice(["H100", "L4"]), count=2) for i in range(1, 5)]
    demands = [demand(i, deployment=i // 2, gib=random.choice([10, 20, 60])) for i in range(1, 9)]
    assert (
        make_plan(nodes, demands, rounds=200, random=seeded(1)).cost_usd_per_h
        <= make_plan(nodes, demands).cost_usd_per_h
    )


def test_the_first_stage_leads():
    plan = make_plan([box(1, count=4), box(2, count=4)], [demand(tensor_parallel=4, pipeline_parallel=2)])
    assert plan.assignments[0].node_id == UUID(int=1)
    assert plan.assignments[0].node_ids == (UUID(int=1), UUID(int=2))


def test_who_is_avoided_does_not_come_later_to_who_avoids_it():
    shy, other = demand(1, gib=20, avoids=(2,), is_exclusive=False), demand(2, deployment=2, gib=10, is_exclusive=False)
    assert places([box(1, count=1)], shy, other) == [[(1, "0")], None]
    there = box(1, count=2, occupants=(occupant(1, "0", deployment=1, avoids=(2,)),))
    assert places([there], other) == [None]


def test_a_group_is_of_one_model_and_size():
    mixed = node(1, gpu(0, "H100"), gpu(1, "H100", gib=40), gpu(2, "L40S"), gpu(3, "H100", gib=40))
    assert places([mixed], demand(tensor_parallel=2, gib=20)) == [[(1, "13")]]
    assert places([mixed], demand(tensor_parallel=3, gib=20)) == [None]


def test_memory_that_was_measured_on_a_gpu_model_counts_there():
    wanted = demand(gib=60, memory_by_model=(("L40S", 30 * GIB),), is_exclusive=False)
    assert places([box(1, "L40S", count=1)], wanted) == [[(1, "0")]]
    assert places([box(1, "A100-80", count=1, occupants=(occupant(1, "0", gib=30, is_exclusive=False),))], wanted) == [
        None
    ]


def test_no_engine_is_spread_over_mig_slices():
    slices = [gpu(i, kind=MIG, gib=20, profile="2g.20gb") for i in range(3)]
    assert places([node(1, *slices)], demand(on=MIG, gib=10, tensor_parallel=2)) == [None]


def test_three_halves_over_two_gpus_each_fit_on_three_gpus_though_the_fullest_two_look_best_to_each():
    """Each takes half of two GPUs; two that choose alike leave halves that nobody can join."""
    halves = [demand(i, gib=4, tensor_parallel=2, memory_share=0.5, is_exclusive=False) for i in range(1, 4)]
    found = places([node(1, *(gpu(i, island=None) for i in range(3)))], *halves, rounds=200, random=seeded(1))
    assert all(found)

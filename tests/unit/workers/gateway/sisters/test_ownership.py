import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.contracts.endpoints import Endpoint
from workers.contracts.snapshot import Route, RouteTarget, Snapshot, Version
from workers.gateway.sisters.ownership import assign, groups_of, owners_by_model, until_engines_come

pytestmark = pytest.mark.unit

names = st.sampled_from([f"v{number}" for number in range(8)])


def snapshot(deployments, routes):
    """`deployments` by version, `routes` as (name, targets, alternatives)."""
    return Snapshot(
        generation=1,
        compiled_at=0.0,
        service_classes=[],
        slo_profiles=[],
        tenants=[],
        keys=[],
        versions=[
            Version(version_id=name, model="m", label="1", served_name="m", deployment_id=deployment)
            for name, deployment in deployments.items()
        ],
        routes=[
            Route(
                public_name=name,
                targets=[RouteTarget(version_id=target, weight=1) for target in targets],
                alternatives=alternatives,
            )
            for name, targets, alternatives in routes
        ],
    )


def engine(version_id, slots=8, number=1):
    return Endpoint(
        endpoint_id=f"{version_id}-{number}", version_id=version_id, base_url="http://e", max_running_requests=slots
    )


snapshots = st.builds(
    snapshot,
    st.dictionaries(names, st.sampled_from(["", "d1", "d2", "d3"]), min_size=1),
    st.lists(st.tuples(st.text(max_size=3), st.lists(names, max_size=3), st.lists(names, max_size=2)), max_size=4),
)
engines = st.lists(st.builds(engine, names, st.integers(0, 64), st.integers(1, 3)), max_size=8)


@given(snapshots)
def test_what_one_request_can_reach_is_one_group_and_every_version_is_in_exactly_one(given_snapshot):
    groups = groups_of(given_snapshot)
    group_of = {version_id: group for group in groups for version_id in group}
    assert sum(map(len, groups)) == len(group_of) == len(given_snapshot.versions)
    for route in given_snapshot.routes:
        reached = [target.version_id for target in route.targets] + route.alternatives
        assert len({group_of[version_id] for version_id in reached if version_id in group_of}) <= 1
    by_deployment = {}
    for version in given_snapshot.versions:
        if version.deployment_id:
            group = by_deployment.setdefault(version.deployment_id, group_of[version.version_id])
            assert group == group_of[version.version_id]


@given(snapshots, engines, st.integers(1, 4))
def test_a_group_has_one_owner_and_whoever_has_an_engine_has_one(given_snapshot, offered, processes):
    owners = assign(groups_of(given_snapshot), offered, {}, processes)
    known = {version.version_id for version in given_snapshot.versions}
    assert {one.version_id for one in offered} & known <= set(owners)
    for group in groups_of(given_snapshot):
        assert len({owners.get(version_id) for version_id in group}) == 1
    assert set(owners.values()) <= set(range(processes))


@given(snapshots, engines, engines, st.integers(1, 4))
def test_engines_that_come_and_go_move_nothing(given_snapshot, first, then, processes):
    groups = groups_of(given_snapshot)
    owners = assign(groups, first, {}, processes)
    later = assign(groups, then, owners, processes)
    assert {version_id: later[version_id] for version_id in owners} == owners


@given(snapshots, engines, st.integers(1, 4), st.randoms())
def test_it_does_not_depend_on_the_order_in_which_anything_is_listed(given_snapshot, offered, processes, random):
    owners = assign(groups_of(given_snapshot), offered, {}, processes)
    random.shuffle(given_snapshot.versions)
    random.shuffle(given_snapshot.routes)
    random.shuffle(offered)
    assert assign(groups_of(given_snapshot), offered, {}, processes) == owners


def test_two_deployments_get_a_process_each_and_four_are_shared_by_size():
    two = snapshot({"a": "d1", "b": "d2"}, [])
    assert sorted(assign(groups_of(two), [engine("a"), engine("b")], {}, 2).values()) == [0, 1]
    four = snapshot({name: name for name in "abcd"}, [])
    offered = [engine("a", 30), engine("b", 10), engine("c", 10), engine("d", 10)]
    assert assign(groups_of(four), offered, {}, 2) == {"a": 0, "b": 1, "c": 1, "d": 1}


def test_a_route_that_joins_two_groups_moves_one_of_them():
    apart = snapshot({"a": "d1", "b": "d2"}, [("x", ["a"], []), ("y", ["b"], [])])
    offered = [engine("a"), engine("b")]
    owners = assign(groups_of(apart), offered, {}, 2)
    joined = snapshot({"a": "d1", "b": "d2"}, [("x", ["a"], ["b"]), ("y", ["b"], [])])
    after = assign(groups_of(joined), offered, owners, 2)
    assert after == {"a": owners["a"], "b": owners["a"]}
    assert owners_by_model(joined, after) == {"x": owners["a"], "y": owners["a"]}


@given(snapshots, st.integers(1, 4))
def test_without_engines_a_group_waits_in_one_place_too(given_snapshot, processes):
    groups = groups_of(given_snapshot)
    owners = until_engines_come(groups, processes)
    assert set(owners) == {version.version_id for version in given_snapshot.versions}
    assert all(len({owners[version_id] for version_id in group}) == 1 for group in groups)
    assert owners == until_engines_come(groups_of(given_snapshot), processes)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.contracts.snapshot import RouteTarget
from workers.scheduling.split import WeightedSplit

pytestmark = pytest.mark.unit


def split(*weights: int, name: str = "demo-chat") -> WeightedSplit:
    return WeightedSplit(name, [RouteTarget(version_id=f"v{n}", weight=weight) for n, weight in enumerate(weights, 1)])


def share_of(version: str, chosen: list[str | None]) -> float:
    return chosen.count(version) / len(chosen)


def test_only_a_route_to_several_versions_is_split():
    assert split(90, 10).is_split
    assert not split(100, 0).is_split


@given(weights=st.lists(st.integers(1, 100), min_size=2, max_size=5), count=st.integers(1, 400))
def test_requests_without_a_sticky_id_are_never_more_than_one_off_the_exact_split(weights, count):
    routes = split(*weights)
    chosen = [routes.choose() for _ in range(count)]
    for number, weight in enumerate(weights, 1):
        exact = weight / sum(weights) * count
        assert abs(chosen.count(f"v{number}") - exact) <= len(weights) - 1


@pytest.mark.parametrize("canary", [1, 5, 10, 25, 50, 90])
def test_a_thousand_different_users_are_split_within_two_points(canary):
    routes = split(100 - canary, canary)
    chosen = [routes.choose(f"user-{number}") for number in range(1000)]
    assert abs(share_of("v2", chosen) - canary / 100) <= 0.02


def test_a_sticky_id_stays_on_its_version():
    routes = split(50, 50)
    first = {f"user-{n}": routes.choose(f"user-{n}") for n in range(200)}
    assert {user: routes.choose(user) for user in first} == first


def test_most_ids_get_the_same_version_from_another_gateway():
    one, other = split(70, 30), split(70, 30)
    users = [f"user-{n}" for n in range(1000)]
    for user in reversed(users):
        other.choose(user)
    agreeing = sum(one.choose(user) == other.choose(user) for user in users)
    assert agreeing > 900


def test_a_version_without_weight_gets_nothing():
    routes = split(100, 0)
    assert {routes.choose() for _ in range(50)} | {routes.choose(str(n)) for n in range(50)} == {"v1"}


def test_a_route_without_any_weight_leads_nowhere():
    assert split(0, 0).choose() is None
    assert split().choose("user") is None


def test_the_memory_of_sticky_ids_is_bounded(monkeypatch):
    monkeypatch.setattr("workers.scheduling.split.STICKY_IDS_MAX", 100)
    routes = split(50, 50)
    for number in range(1000):
        routes.choose(f"user-{number}")
    assert len(routes._remembered) == 100

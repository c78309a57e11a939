import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.usage.policies.allocation import Amount, NodeSlot, allocate
from apps.usage.policies.sharing import clipped, share_time

pytestmark = pytest.mark.unit

RUNS = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(1, 5_000), st.sampled_from("abc")).map(
        lambda run: (run[0], run[0] + run[1], run[2])
    ),
    max_size=30,
)


def busy_time(runs):
    """In how many moments anything ran, counted one by one."""
    return len({moment for start, end, _ in runs for moment in range(start, end)})


def test_one_request_alone_has_all_the_time():
    assert share_time([(0, 100, "a")]) == {"a": 100}


def test_two_at_once_have_half_each_while_they_overlap():
    assert share_time([(0, 100, "a"), (50, 150, "b")]) == {"a": 75, "b": 75}
    assert share_time([(0, 100, "a"), (0, 100, "b"), (0, 100, "b")]) == {"a": 33, "b": 67}


@given(RUNS)
def test_the_shares_add_up_to_the_time_in_which_anything_ran(runs):
    assert sum(share_time(runs).values()) == pytest.approx(busy_time(runs), abs=3)


@given(RUNS, st.integers(0, 15_000))
def test_what_a_cut_takes_apart_adds_up_again(runs, cut):
    halves = busy_time(clipped(runs, 0, cut)) + busy_time(clipped(runs, cut, 20_000))
    assert halves == busy_time(runs)


SLOTS = st.lists(
    st.builds(
        NodeSlot,
        node=st.sampled_from(["n1", "n2", "n3"]),
        available=st.builds(Amount, st.integers(0, 10**9), st.integers(0, 10**13)),
        used_us=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 10**9), max_size=4),
    ),
    max_size=12,
)


@given(SLOTS)
def test_all_parts_add_up_to_all_accelerator_time_and_all_of_its_cost(slots):
    whole = allocate(slots)
    parts = [amount for bearer in whole.bearers.values() for amount in (bearer.used, bearer.idle)]
    for name in ("time_us", "cost_pico_usd"):
        borne = sum(getattr(part, name) for part in parts) + getattr(whole.unborne, name)
        assert borne == getattr(whole.available, name)
        assert getattr(whole.used, name) + getattr(whole.idle, name) == getattr(whole.available, name)
        assert all(getattr(part, name) >= 0 for part in parts)


def slot(node="n", time_us=1000, cost=100, **used):
    return NodeSlot(node, Amount(time_us, cost), used)


def test_idle_time_is_borne_by_those_who_use_the_node_as_they_use_it():
    whole = allocate([slot(a=300, b=100)])
    assert (whole.bearers["a"].used, whole.bearers["a"].idle) == (Amount(300, 30), Amount(450, 45))
    assert (whole.bearers["b"].used, whole.bearers["b"].idle) == (Amount(100, 10), Amount(150, 15))


def test_more_use_than_there_was_is_scaled_down_alike():
    whole = allocate([slot(a=3000, b=1000)])
    assert (whole.bearers["a"].used.time_us, whole.bearers["b"].used.time_us, whole.idle.time_us) == (750, 250, 0)


def test_a_node_nobody_used_is_borne_by_everybody_and_by_nobody_where_there_is_nobody():
    assert allocate([slot(a=500), slot("idle", a=0)]).bearers["a"].idle.cost_pico_usd == 50 + 100
    assert allocate([slot("idle")]).unborne == Amount(1000, 100)

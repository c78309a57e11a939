import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.scheduling.planning.price import WINDOW_S, BidPrices
from workers.scheduling.planning.shares import dominant_shares

pytestmark = pytest.mark.unit

asks = st.tuples(st.floats(0, 10), st.floats(0, 10))


def used(shares, asked, place):
    return sum(shares[name] * asked[name][place] for name in asked)


def test_who_asks_for_different_things_gets_most_of_each():
    """One by one, of the steps and of the cache, the second would be reckoned with all that the first asks of it."""
    shares = dominant_shares({"steps": (3.0, 0.6), "cache": (0.3, 3.0)}, {"steps": 1.0, "cache": 1.0})
    assert shares["steps"] == pytest.approx(shares["cache"])
    assert 3.0 * shares["steps"] == pytest.approx(1 / 1.2)


@given(st.dictionaries(st.sampled_from("abcdef"), asks, min_size=1), st.floats(0.1, 10))
def test_nobody_has_less_of_what_it_asks_most_than_another_of_its_weight(asked, weight):
    weights = {name: weight if name in "abc" else 1.0 for name in asked}
    shares = dominant_shares(asked, weights)
    assert max(used(shares, asked, 0), used(shares, asked, 1)) <= 1 + 1e-6
    level = max((share * max(asked[name]) / weights[name] for name, share in shares.items()), default=0.0)
    for name, share in shares.items():
        assert 0 <= share <= 1
        assert share == 1 or share * max(asked[name]) / weights[name] == pytest.approx(level, abs=1e-5)
    if min(shares.values()) < 1:
        assert max(used(shares, asked, 0), used(shares, asked, 1)) == pytest.approx(1.0, abs=1e-4)


def test_both_are_priced_where_both_are_scarce():
    """A tenant that fills the steps three times and one that fills the cache three times: each is let in by a third."""
    prices = BidPrices(1.0, is_fair=True)
    for number in range(300):
        density = 1.0 + number / 300
        prices.arrived("steps", 1.0, density=density, steps_s=WINDOW_S / 100, kv_s=WINDOW_S / 1000, now=0.0)
        prices.arrived("cache", 1.0, density=density, steps_s=WINDOW_S / 1000, kv_s=WINDOW_S / 100, now=0.0)
    prices.update(1.0, 0.1)
    assert prices.price_of("steps") == prices.price_of("cache") == pytest.approx(1.7, abs=0.05)

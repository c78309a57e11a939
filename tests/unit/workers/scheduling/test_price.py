import pytest

from workers.scheduling.planning.price import WINDOW_S, BidPrices, Demand

pytestmark = pytest.mark.unit


def test_there_is_no_price_while_everything_fits():
    demand = Demand()
    demand.arrived(density=1.0, steps_s=5.0, kv_s=2.0, now=0.0)
    assert demand.price(6.0, of_kv=False) == demand.price(6.0, of_kv=True) == 0.0


def test_the_price_is_the_density_at_which_the_densest_first_sum_fills_the_room():
    demand = Demand()
    for density in (1.0, 4.0, 16.0):
        demand.arrived(density, steps_s=10.0, kv_s=5.0, now=0.0)
    assert demand.price(15.0, of_kv=False) == 4.0
    assert demand.price(5.0, of_kv=False) == 16.0
    assert demand.price(9.0, of_kv=True) == 4.0


def test_of_requests_that_are_alike_as_many_are_let_in_as_fit():
    """All within a fifth of each other."""
    demand = Demand()
    densities = [2.0 * 2 ** (number / 400) for number in range(100)]
    for density in densities:
        demand.arrived(density, steps_s=1.0, kv_s=0.0, now=0.0)
    price = demand.price(40.0, of_kv=False)
    assert sum(density >= price for density in densities) == pytest.approx(40, abs=10)


def test_requests_that_are_equal_are_let_in_together_and_not_kept_out():
    for density in (2.01, 2.37):
        demand = Demand()
        for _ in range(100):
            demand.arrived(density, steps_s=1.0, kv_s=0.0, now=0.0)
        assert 0.97 * density < demand.price(50.0, of_kv=False) <= density


def test_what_is_older_than_the_window_is_forgotten():
    demand = Demand()
    demand.arrived(1.0, 10.0, 10.0, now=0.0)
    demand.forget(now=WINDOW_S + 0.1)
    assert demand.steps_s == demand.kv_s == 0.0
    assert demand.price(1.0, of_kv=False) == demand.price(1.0, of_kv=True) == 0.0


def test_among_many_tenants_shares_are_looked_at_more_seldom_the_load_as_often():
    """Sharing out takes time in proportion to the tenants."""
    prices = BidPrices(0.9, is_fair=True)
    for number in range(4000):
        prices.arrived(f"t{number}", 1.0, density=1.0, steps_s=0.01, kv_s=0.0, now=0.0)
    prices.update(1.0, 0.0)
    assert prices.price_of("t7") > 0
    prices.arrived("late", 1.0, density=1.0, steps_s=10.0, kv_s=0.0, now=0.2)
    for at, is_priced in ((0.25, False), (0.75, False), (1.0, True)):
        prices.update(1.0, at)
        assert prices.load == pytest.approx(50.0 / WINDOW_S)
        assert (prices.price_of("late") > 0) is is_priced


@pytest.mark.parametrize("is_fair", [False, True])
def test_the_price_is_of_what_the_densest_fill_first_whatever_the_others_would_take(is_fair):
    """The least dense take most of the KV cache, the dense nearly nothing but steps."""
    prices = BidPrices(1.0, is_fair=is_fair)
    for number in range(40):
        prices.arrived("t", 1.0, density=8.0, steps_s=1.0, kv_s=0.1, now=number / 10)
        prices.arrived("t", 1.0, density=1.0, steps_s=0.5, kv_s=5.0, now=number / 10)
    prices.update(capacity=1.0, now=10.0)
    assert prices.price_of("t") == 8.0


def a_market(*, is_fair):
    prices = BidPrices(1.0, is_fair=is_fair)
    for number in range(100):
        prices.arrived("many", 1.0, density=8.0, steps_s=1.0, kv_s=0.0, now=number / 10)
    for number in range(5):
        prices.arrived("few", 1.0, density=1.0, steps_s=1.0, kv_s=0.0, now=number / 10)
    prices.update(capacity=1.0, now=10.0)
    return prices


def test_without_fairness_the_densest_win():
    prices = a_market(is_fair=False)
    assert prices.price_of("few") == prices.price_of("many") == 8.0


def test_a_tenant_that_asks_for_less_than_its_share_pays_nothing():
    prices = a_market(is_fair=True)
    assert prices.price_of("few") == 0.0
    assert prices.price_of("many") == 8.0


def test_tenants_without_traffic_are_forgotten():
    prices = a_market(is_fair=True)
    prices.update(capacity=1.0, now=100.0)
    assert prices._by_tenant == {}
    assert prices.price_of("many") == 0.0


def test_who_asks_for_less_than_half_of_an_even_share_is_within_it_before_there_is_a_price():
    prices = BidPrices(0.9, is_fair=True)
    for tenant, steps_s in (("flood", 9.0), ("quiet", 1.0), ("middle", 2.0)):
        prices.arrived(tenant, 1.0, density=1.0, steps_s=steps_s, kv_s=0.0, now=0.0)
    assert prices.price == 0.0
    assert [prices.is_within_share(tenant) for tenant in ("flood", "quiet", "middle", "unknown")] == [
        False, True, False, False,
    ]  # fmt: skip


def test_who_has_gone_counts_in_no_share_any_more():
    prices = BidPrices(0.9, is_fair=True)
    prices.arrived("gone", 8.0, density=1.0, steps_s=1.0, kv_s=0.0, now=0.0)
    for tenant, steps_s in (("a", 9.0), ("b", 6.0)):
        prices.arrived(tenant, 1.0, density=1.0, steps_s=steps_s, kv_s=0.0, now=30.0)
    prices.update(4.0, 30.0)
    assert not prices.is_within_share("a")
    assert not prices.is_within_share("b")


def test_by_value_alone_nobody_has_a_share():
    prices = BidPrices(0.9, is_fair=False)
    prices.arrived("quiet", 1.0, density=1.0, steps_s=1.0, kv_s=0.0, now=0.0)
    assert not prices.is_within_share("quiet")

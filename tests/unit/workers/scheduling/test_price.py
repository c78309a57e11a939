import pytest

from workers.scheduling.planning.price import WINDOW_S, BidPrices, Demand

pytestmark = pytest.mark.unit


def test_there_is_no_price_while_everything_fits():
    demand = Demand()
    demand.arrived(density=1.0, cost_s=5.0, now=0.0)
    assert demand.price(room_s=6.0) == 0.0


def test_the_price_is_the_density_at_which_the_densest_first_sum_fills_the_room():
    demand = Demand()
    for density in (1.0, 4.0, 16.0):
        demand.arrived(density, cost_s=10.0, now=0.0)
    assert demand.price(room_s=15.0) == 4.0
    assert demand.price(room_s=5.0) == 16.0


def test_what_is_older_than_the_window_is_forgotten():
    demand = Demand()
    demand.arrived(1.0, 10.0, now=0.0)
    demand.forget(now=WINDOW_S + 0.1)
    assert demand.offered_s == 0.0
    assert demand.price(1.0) == 0.0


def a_market(*, is_fair):
    prices = BidPrices(1.0, is_fair=is_fair)
    for number in range(100):
        prices.arrived("many", 1.0, density=8.0, cost_s=1.0, now=number / 10)
    for number in range(5):
        prices.arrived("few", 1.0, density=1.0, cost_s=1.0, now=number / 10)
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

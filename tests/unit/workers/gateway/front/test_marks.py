"""What another gateway calls the record of a request that it passes on."""

from types import SimpleNamespace

import pytest

from workers.gateway.front.marks import take_name

pytestmark = pytest.mark.unit

NAME = "01a231f7-0de1-7d07-be7e-99ee44ad9be3"


def named(given, awaited=()):
    settlement = SimpleNamespace(record_id="own", arrived_unix_s=7.0)
    meter = SimpleNamespace(awaited=set(awaited))
    take_name(meter, settlement, given)
    assert settlement.record_id in meter.awaited
    return settlement.record_id, settlement.arrived_unix_s


def test_the_record_is_written_under_the_id_and_the_arrival_that_the_asking_gateway_names():
    assert named(f"{NAME} 1800000000.25".encode()) == (NAME, 1_800_000_000.25)


@pytest.mark.parametrize(
    "given", [b"", NAME.encode(), b"1800000000.25", f"{NAME.upper()} 1.5".encode(), f"{NAME} -1.5".encode(), b"x 1.5"]
)
def test_what_is_no_name_is_left_aside(given):
    assert named(given) == ("own", 7.0)


def test_a_name_that_is_under_way_already_is_not_taken_twice():
    assert named(f"{NAME} 1800000000.25".encode(), awaited=[NAME]) == ("own", 7.0)

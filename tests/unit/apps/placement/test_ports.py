import pytest

from apps.placement.policies.ports import lowest_free_port

pytestmark = pytest.mark.unit


def test_the_lowest_port_that_nobody_has_is_given():
    assert lowest_free_port(base=9000, taken={9000, 9001, 9003}) == 9002


def test_there_may_be_none_left():
    assert lowest_free_port(base=65535, taken={65535}) is None

import pytest

from workers.gateway.sisters.control import Holds
from workers.gateway.sisters.holding import hold_together

pytestmark = pytest.mark.unit


def test_what_several_processes_hold_is_added_up():
    one = Holds(2, {"k": 3}, 1, {"t": 4}, {"t": (1, 100)}, {"t/w": (10, 5)})
    other = Holds(1, {"k": 1, "l": 2}, 2, {"u": 1}, {"t": (2, 50)}, {"t/w": (1, 1), "t/x": (7, 7)})
    both = hold_together([one, other])
    assert (both.connections, both.by_key, both.waiting) == (3, {"k": 4, "l": 2}, 3)
    assert (both.queued, both.arriving) == ({"t": 4, "u": 1}, {"t": (3, 150)})
    assert both.spent == {"t/w": (11, 6), "t/x": (7, 7)}
    assert hold_together([]) == Holds()

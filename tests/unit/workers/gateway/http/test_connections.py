import pytest

from workers.gateway.http.connections import Connections

pytestmark = pytest.mark.unit


class Open:
    """As much of a connection as is counted."""

    def __init__(self, connections):
        self.key_id = ""
        connections.add(self)


def test_a_key_has_no_more_connections_than_it_may_and_others_have_theirs():
    connections = Connections(100, 2)
    first, second, third = (Open(connections) for _ in range(3))
    assert connections.may_ask(first, "a")
    assert connections.may_ask(second, "a")
    assert not connections.may_ask(third, "a")
    assert connections.may_ask(third, "b")
    assert connections.may_ask(first, "a")


def test_what_leaves_makes_room():
    connections = Connections(100, 1)
    first, second = Open(connections), Open(connections)
    assert connections.may_ask(first, "a")
    connections.leave(first)
    assert connections.may_ask(second, "a")
    assert connections.may_ask(second, "b")
    connections.leave(second)
    assert connections._of_key == {}
    assert len(connections) == 0


def test_all_together_are_bounded():
    connections = Connections(2, 2)
    Open(connections)
    assert not connections.is_full()
    Open(connections)
    assert connections.is_full()

import pytest

from workers.agent.lease import Sightings, is_cut_off, should_ask_peers
from workers.contracts.desired import DesiredState

pytestmark = pytest.mark.unit


def desired(lease_s=60.0, peers=("http://other:8080",)):
    return DesiredState(node_id="n", generation=1, fence=1, lease_s=lease_s, peers=list(peers))


def test_who_hears_nobody_is_cut_off_when_the_lease_is_over():
    seen = Sightings(heard_at=0.0)
    assert not is_cut_off(desired(), seen, 60.0)
    assert is_cut_off(desired(), seen, 61.0)


def test_who_reaches_another_node_serves_on():
    assert not is_cut_off(desired(), Sightings(heard_at=0.0, peer_at=1000.0), 1050.0)


@pytest.mark.parametrize("state", [None, desired(lease_s=None), desired(peers=())])
def test_where_nobody_would_take_over_nobody_stops(state):
    assert not is_cut_off(state, Sightings(heard_at=0.0), 1e9)
    assert not should_ask_peers(state, Sightings(heard_at=0.0), 1e9)


def test_peers_are_asked_well_before_the_lease_is_over():
    assert not should_ask_peers(desired(), Sightings(heard_at=0.0), 20.0)
    assert should_ask_peers(desired(), Sightings(heard_at=0.0), 21.0)

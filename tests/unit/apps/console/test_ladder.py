import pytest

from apps.console.policies.ladder import ladder_of, share_of_newer
from apps.deployments.policies.rollout import Rollout

pytestmark = pytest.mark.unit


def rollout(state="progressing", *, newer=2, placed=2, newer_ready=1, older=1, older_ready=1):
    return Rollout(
        state=state,
        detail="",
        wanted_count=2,
        newer_count=newer,
        newer_placed_count=placed,
        newer_ready_count=newer_ready,
        older_count=older,
        older_ready_count=older_ready,
    )


def states(found, *, is_routed=False, is_first=False):
    return [step.state for step in ladder_of(found, is_routed=is_routed, is_first=is_first)]


def test_the_first_step_that_is_not_done_is_now():
    assert states(rollout()) == ["done", "now", "next", "next", "next"]


def test_what_is_made_and_has_no_place_is_not_placed():
    first, *_ = ladder_of(rollout("stuck", placed=0, newer_ready=0), is_routed=False, is_first=True)
    assert (first.title, first.detail, first.state) == ("Made and placed", "0 of 2", "held")


def test_what_is_ready_before_every_gateway_knows_it_waits_there():
    assert states(rollout(newer_ready=2)) == ["done", "done", "now", "next", "next"]


def test_those_of_before_stop_serving_before_they_are_gone():
    assert states(rollout(newer_ready=2, older_ready=0), is_routed=True) == ["done", "done", "done", "done", "now"]


@pytest.mark.parametrize("state", ["stuck", "paused"])
def test_a_rollout_that_does_not_move_is_held_where_it_is(state):
    assert states(rollout(state)) == ["done", "held", "next", "next", "next"]


def test_one_that_is_done_has_no_step_left():
    assert set(states(rollout("done", older=0, older_ready=0))) == {"done"}


def test_a_first_revision_replaces_nobody():
    assert states(rollout(older=0, older_ready=0), is_first=True) == ["done", "now"]


def test_traffic_follows_the_replicas_that_answer():
    assert share_of_newer(rollout(newer_ready=1, older_ready=3)) == 25
    assert share_of_newer(rollout(newer_ready=0, older_ready=0)) is None

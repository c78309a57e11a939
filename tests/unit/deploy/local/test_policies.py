import pytest

from deploy.local import policies
from deploy.local.policies import ExitHistory, GiveUp, Restart, after_exit, kill_at_s

pytestmark = pytest.mark.unit


def exits(count: int, *, ran_for_s: float, history: ExitHistory) -> list[Restart | GiveUp]:
    decisions = []
    for _ in range(count):
        decision = after_exit(history, ran_for_s=ran_for_s)
        decisions.append(decision)
        if isinstance(decision, GiveUp):
            break
        history = decision.history
    return decisions


def test_a_process_that_was_ready_once_is_always_started_again():
    decisions = exits(50, ran_for_s=0.1, history=ExitHistory(was_ready=True))
    assert all(isinstance(decision, Restart) for decision in decisions)
    assert decisions[-1].history.restarts == 50


def test_the_delay_doubles_up_to_a_limit():
    delays = [decision.delay_s for decision in exits(9, ran_for_s=0.1, history=ExitHistory(was_ready=True))]
    assert delays[:4] == [0.2, 0.4, 0.8, 1.6]
    assert delays[-1] == policies.LONGEST_DELAY_S


def test_a_process_that_ran_for_long_starts_again_at_once():
    tired = ExitHistory(restarts=7, failures=7, was_ready=True)
    decision = after_exit(tired, ran_for_s=policies.SETTLED_AFTER_S)
    assert decision == Restart(policies.FIRST_DELAY_S, ExitHistory(restarts=8, failures=1, was_ready=True))


def test_a_process_that_was_never_ready_is_given_up():
    decisions = exits(10, ran_for_s=0.1, history=ExitHistory())
    assert len(decisions) == policies.FAILED_STARTS_ALLOWED
    assert decisions[-1] == GiveUp()


def test_every_stage_has_its_share_of_the_stop_and_the_last_ends_with_it():
    deadlines = [kill_at_s(stage, 5) for stage in range(5)]
    assert deadlines == sorted(deadlines)
    assert deadlines[-1] == policies.STOP_LIMIT_S

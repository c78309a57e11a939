from datetime import UTC, datetime, timedelta

import pytest

from apps.usage.policies.checking import oldest_kept, problem_of
from tests.factories.usage import make_record
from workers.contracts.outcomes import TaskOutcome

pytestmark = pytest.mark.unit

NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


def test_a_sound_record_has_no_problem():
    assert problem_of(make_record()) is None


@pytest.mark.parametrize(
    "fault",
    [
        {"record_id": "not-a-uuid"},
        {"tenant_id": "gold"},
        {"arrived_at": 0.0},
        {"arrived_at": 1e18},
        {"arrived_at": float("nan")},
        {"total_ms": float("inf")},
        {"total_ms": -1.0},
        {"sequence": -1},
        {"status": 70_000},
        {"input_tokens": -1},
        {"output_tokens": 10**16},
        {"input_tokens": 1, "cached_input_tokens": 2},
        {"cost_pico_usd": 2**63},
        {"task_outcome": TaskOutcome(is_success=True)},
        {"task_outcome": TaskOutcome(is_success=True, request_id="r", workflow_id="w")},
        {"task_outcome": TaskOutcome(is_success=True, request_id="r", value_pico_usd=2**70)},
        {"task_outcome": TaskOutcome(is_success=True, request_id="r"), "tenant_id": ""},
    ],
    ids=str,
)
def test_a_record_that_cannot_be_a_row_says_why(fault):
    assert problem_of(make_record(**fault))


def test_ids_of_what_was_never_reached_may_be_empty():
    assert problem_of(make_record(version_id="", endpoint_id="", user_id="")) is None


def test_a_record_is_welcome_for_a_week_however_little_is_kept():
    kept_from_s = oldest_kept(NOON, keep_days=1).timestamp()
    week_old = make_record(arrived_at=(NOON - timedelta(days=7)).timestamp())
    assert problem_of(week_old, kept_from_s=kept_from_s) is None
    assert problem_of(make_record(arrived_at=(NOON - timedelta(days=9)).timestamp()), kept_from_s=kept_from_s)


def test_nothing_is_ever_too_late_where_everything_is_kept():
    assert oldest_kept(NOON, keep_days=0) is None


def test_a_record_from_far_ahead_is_not_believed():
    assert problem_of(
        make_record(arrived_at=(NOON + timedelta(days=8)).timestamp()), until_s=(NOON + timedelta(days=7)).timestamp()
    )

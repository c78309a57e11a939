import pytest

from tests.support.usage_records import usage_record
from workers.gateway.batches.errands import Reply
from workers.gateway.batches.loopback import LoopbackAnswer
from workers.gateway.batches.progress import MAX_PAUSE_S, MAX_TRIES, PAUSE_S, Progress, pause_s, verdict_on
from workers.gateway.batches.shapes import Batch, Counts, Item

pytestmark = pytest.mark.unit


def reply(outcome, status=200, error_code="", **headers):
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return Reply(LoopbackAnswer(status, named, b"{}"), usage_record(1, outcome=outcome, error_code=error_code))


def batch(**changes):
    fields = {"batch_id": "b", "tenant_id": "t", "key_id": "k", "endpoint": "/v1/completions"}
    return Batch(**(fields | {"input_file_id": "f", "created_at": 0, "expires_at": 100} | changes))


def test_an_answer_is_kept_and_so_is_what_the_engine_rejects():
    assert verdict_on(reply("completed"), 1) == "keep"
    assert verdict_on(reply("rejected", 400), 1) == "keep"


def test_what_we_refuse_comes_later_however_often():
    assert verdict_on(reply("refused", 429), 1000) == "later"
    assert verdict_on(reply("failed", 503, "shutting_down"), 1000) == "later"


def test_what_no_waiting_changes_is_kept():
    assert verdict_on(reply("refused", 429, "larger_than_limit"), 1) == "keep"
    assert verdict_on(reply("refused", 402, "budget_exhausted"), 1) == "keep"
    assert verdict_on(reply("refused", 402, "budget_exhausted", retry_after=b"9"), 1) == "later"


def test_a_failing_engine_is_tried_a_few_times():
    verdicts = [verdict_on(reply("failed", 502), tries) for tries in range(1, MAX_TRIES + 1)]
    assert verdicts == ["again"] * (MAX_TRIES - 1) + ["keep"]


def test_what_nobody_could_be_asked_for_comes_later_and_what_nobody_takes_is_kept():
    assert verdict_on(Reply(LoopbackAnswer(503, {}, b""), None), 1000) == "later"
    assert verdict_on(Reply(LoopbackAnswer(413, {}, b""), None), 1) == "keep"
    assert verdict_on(Reply(None, None), 1) == "keep"


def test_a_refusal_says_how_long_to_wait_within_reason():
    assert pause_s(reply("refused", 429, retry_after=b"7")) == 7
    assert pause_s(reply("refused", 429, retry_after=b"0")) == PAUSE_S
    assert pause_s(reply("refused", 429, retry_after=b"99999999999")) == MAX_PAUSE_S
    assert pause_s(reply("refused", 429, retry_after=b"soon")) == PAUSE_S


def used(outcome, output_tokens, wasted_tokens=0, **fields):
    record = usage_record(1, outcome=outcome, output_tokens=output_tokens, wasted_tokens=wasted_tokens, **fields)
    return Reply(LoopbackAnswer(200 if outcome == "completed" else 502, {}, b"{}"), record)


ITEM = Item(0, "a", b"")


def test_what_earlier_tries_and_their_own_attempts_threw_away_is_in_the_record_of_the_last():
    progress = Progress(batch(status="in_progress"))
    for reply_of_a_try in (used("failed", 3, 4), used("failed", 5, error_code="shutting_down")):
        assert progress.judge(ITEM, reply_of_a_try, now=0.0) != "keep"
    record = progress.due_record(ITEM, used("completed", 7, 1))
    assert (record.output_tokens, record.wasted_tokens) == (7, 3 + 4 + 5 + 1)


def test_what_is_given_up_has_a_record_of_its_waste_if_it_has_any_and_only_once():
    progress = Progress(batch(status="in_progress"))
    progress.judge(ITEM, used("failed", 3), now=0.0)
    progress.ready.append(Item(1, "b", b""))
    [(item, record)] = progress.give_up("batch_cancelled")
    assert (item, record.error_code, record.output_tokens, record.wasted_tokens) == (ITEM, "batch_cancelled", 0, 3)
    assert (progress.give_up("batch_cancelled"), progress.waste_of(ITEM, "x"), list(progress.ready)) == ([], None, [])


def test_an_answer_that_has_no_record_of_its_own_leaves_that_of_the_waste_before():
    progress = Progress(batch(status="in_progress"))
    progress.judge(ITEM, used("failed", 3), now=0.0)
    assert progress.due_record(ITEM, Reply(None, None)) is None
    record = progress.due_record(ITEM, Reply(LoopbackAnswer(500, {}, b""), None))
    assert (record.error_code, record.wasted_tokens) == ("internal_error", 3)


def test_while_refused_the_whole_batch_pauses_and_the_item_is_next():
    progress = Progress(batch(status="in_progress"))
    progress.ready.append(Item(1, "b", b""))
    progress.judge(Item(0, "a", b""), reply("refused", 429, retry_after=b"5"), now=10.0)
    assert not progress.is_due(14.9)
    assert progress.is_due(15.0)
    assert progress.ready[0].number == 0


@pytest.mark.parametrize(
    ("changes", "now", "ending", "step"),
    [
        ({"status": "validating"}, 500, None, "validate"),
        ({"status": "in_progress"}, 99, None, "load"),
        ({"status": "in_progress"}, 100, None, "close"),
        ({"status": "in_progress", "counts": Counts(2, 1, 1)}, 100, None, "finalize"),
        ({"status": "in_progress", "counts": Counts(2, 1, 1)}, 100, "expired", "close"),
        ({"status": "finalizing"}, 500, None, "finish"),
        ({"status": "cancelling"}, 1, None, "close"),
    ],
)
def test_a_batch_takes_one_step_after_the_other(changes, now, ending, step):
    fields = {"counts": Counts(2, 1, 0)} | changes
    assert Progress(batch(**fields), ending=ending).step(now) == step

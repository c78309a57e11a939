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

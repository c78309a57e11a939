import pytest

from tests.support.usage_records import usage_record
from workers.gateway.tracing.context import TraceContext
from workers.gateway.tracing.spans import attribute_list, spans_of

pytestmark = pytest.mark.unit

CONTEXT = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", "f" * 16, "a" * 16, is_sampled=True)


def by_name(received_ms=0.5, **changes):
    fields = {"arrived_at": 100.0, "queue_ms": 2.0, "ttft_ms": 10.0, "total_ms": 30.0} | changes
    return {span["name"]: span for span in spans_of(usage_record(1, **fields), CONTEXT, received_ms)}


def times_ms(span):
    return tuple((int(span[name]) - 100 * 10**9) / 1e6 for name in ("startTimeUnixNano", "endTimeUnixNano"))


def test_stages_follow_each_other_without_a_gap():
    spans = by_name()
    stages = ("receive", "queue", "first_token", "generate")
    assert [times_ms(spans[name]) for name in stages] == [(0, 0.5), (0.5, 2), (2, 10), (10, 30)]
    assert times_ms(spans["dispatch"]) == (2, 30)
    assert times_ms(spans["text_completion demo"]) == (0, 30)


def test_an_answer_whose_first_token_nobody_saw_has_no_such_stage():
    assert set(by_name(ttft_ms=None)) == {"text_completion demo", "receive", "queue", "dispatch"}


def test_what_was_refused_in_the_queue_waited_there_and_went_nowhere():
    spans = by_name(
        queue_ms=None, ttft_ms=None, outcome="refused", endpoint_id="", status=503, error_code="no_endpoint"
    )
    assert set(spans) == {"text_completion demo", "receive", "queue"}
    assert spans["text_completion demo"]["status"] == {"code": 2, "message": "no_endpoint"}


def test_what_was_never_queued_was_only_received():
    spans = by_name(received_ms=-5, queue_ms=None, ttft_ms=None, outcome="rejected", endpoint_id="", status=404)
    assert set(spans) == {"text_completion demo", "receive"}
    assert spans["text_completion demo"]["status"] == {}


def test_no_span_ends_before_it_begins_whatever_the_clocks_say():
    for span in by_name(ttft_ms=50.0, queue_ms=40.0, received_ms=-3.0).values():
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])


def test_ids_are_hex_of_their_length_and_none_is_used_twice():
    spans = by_name().values()
    ids = [span["spanId"] for span in spans]
    assert len(set(ids)) == len(ids)
    assert all(len(one) == 16 and int(one, 16) for one in ids)


def test_attributes_are_typed_as_otlp_wants_them():
    assert attribute_list({"a": True, "b": 7, "c": "x", "d": 0.5, "e": None}) == [
        {"key": "a", "value": {"boolValue": True}},
        {"key": "b", "value": {"intValue": "7"}},
        {"key": "c", "value": {"stringValue": "x"}},
        {"key": "d", "value": {"doubleValue": 0.5}},
    ]


def test_use_that_is_unknown_is_not_zero():
    spans = by_name(usage_source="none", input_tokens=0, output_tokens=0)
    keys = {one["key"] for one in spans["text_completion demo"]["attributes"]}
    assert not any(key.startswith("gen_ai.usage") for key in keys)

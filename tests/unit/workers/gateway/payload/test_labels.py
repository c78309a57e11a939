import random

import pytest

from workers.gateway.payload.bodies import peek
from workers.gateway.payload.labels import note_headers, read_tags, sticky_id, trace_parent
from workers.gateway.payload.peeks import end_user_of

pytestmark = pytest.mark.unit

TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def tags(fields=b"", **headers):
    noted = note_headers([(name.replace("_", "-").encode(), value) for name, value in headers.items()])
    return read_tags(noted, peek(b'{"model":"m"%b}' % fields))


def new_trace(given, request_id="mine"):
    noted = {} if given is None else {b"traceparent": given}
    return trace_parent(noted, request_id, random.Random(7).getrandbits)  # noqa: S311 - a test


def test_without_labels_there_are_no_tags():
    assert tags() == {}


def test_headers_and_fields_are_tags_under_their_own_names():
    found = tags(
        b',"service_tier":"flex","safety_identifier":"s","prompt_cache_key":"k"',
        x_gateway_inference_objective=b"chat-critical",
        x_gateway_inference_fairness_id=b"team-7",
        x_workflow_id=b"w1",
        x_unknown=b"no",
    )
    assert found == {
        "x-gateway-inference-objective": "chat-critical",
        "x-gateway-inference-fairness-id": "team-7",
        "x-workflow-id": "w1",
        "service_tier": "flex",
        "safety_identifier": "s",
        "prompt_cache_key": "k",
    }


def test_metadata_is_bounded_in_number_and_length():
    pairs = b",".join(b'"%b%d":"%b"' % (b"n" * 70, number, b"v" * 600) for number in range(5))
    many = b",".join(b'"k%d":"v"' % number for number in range(30))
    assert len(tags(b',"metadata":{%b}' % many)) == 16
    assert {(len(name), len(value)) for name, value in tags(b',"metadata":{%b}' % pairs).items()} == {(64, 512)}


@pytest.mark.parametrize("metadata", [b"7", b'"text"', b"[1]", b'{"a":1,"b":null,"c":{"d":"e"}}'])
def test_metadata_of_a_wrong_kind_is_left_for_the_engine_to_refuse(metadata):
    assert tags(b',"metadata":%b' % metadata) == {}


def test_metadata_takes_no_name_of_ours():
    assert tags(b',"metadata":{"x-workflow-id":"mine"}', x_workflow_id=b"w1") == {"x-workflow-id": "w1"}


def test_half_a_surrogate_pair_in_metadata_can_stand_in_a_record():
    body = rb'{"model":"m","metadata":{"a\ud800":"b\ud800","user_id":"u\ud800"}}'
    assert read_tags({}, peek(body)) == {"a?": "b?", "user_id": "u?"}
    assert end_user_of(peek(body)) == "u?"


def test_a_header_in_any_encoding_is_text():
    assert tags(x_workflow_id=b"\xff\xfe") == {"x-workflow-id": "��"}


@pytest.mark.parametrize("given", [TRACE, b"01-" + TRACE[3:] + b"-more"])
def test_a_trace_goes_on(given):
    assert new_trace(given) == given


@pytest.mark.parametrize(
    "given",
    [
        None,
        b"",
        b"x",
        b"ff" + TRACE[2:],
        b"00-" + b"0" * 32 + TRACE[35:],
        TRACE[:36] + b"0" * 16 + b"-01",
        TRACE + b"\n",
    ],
)
def test_without_a_sound_trace_a_new_one_begins(given):
    made = new_trace(given)
    assert made != given
    assert new_trace(made) == made


def test_a_new_trace_has_the_id_of_the_request_when_that_is_ours():
    made = "4bf92f3577b34da6a3ce929d0e0e4736"
    assert new_trace(None, made) == b"00-4bf92f3577b34da6a3ce929d0e0e4736-a3ce929d0e0e4736-01"


@pytest.mark.parametrize("unfit", ["0" * 32, "0" * 31 + "1" + "0", "F" * 32, "4bf92f3577b34da60000000000000000"])
def test_a_request_id_that_cannot_be_a_traces_is_not_made_one(unfit):
    assert unfit.encode() not in new_trace(None, unfit)


def test_a_workflow_stays_together_before_a_session_before_a_user():
    found = peek(b'{"model":"m","user":"u"}')
    assert sticky_id({b"x-workflow-id": b"w", b"x-session-id": b"s"}, found) == "w"
    assert sticky_id({b"x-session-id": b"s"}, found) == "s"
    assert sticky_id({}, found) == "u"

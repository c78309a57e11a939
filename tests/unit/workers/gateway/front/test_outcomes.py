import json

import pytest

from workers.gateway.errors import GatewayError
from workers.gateway.front.outcomes import outcome_body, read_outcome

pytestmark = pytest.mark.unit


def told(**fields):
    return read_outcome(json.dumps({"success": True, "request_id": "r1"} | fields).encode())


def test_an_outcome_is_about_a_request_or_a_workflow():
    assert told().request_id == "r1"
    about = told(request_id="", workflow_id="w1", success=False)
    assert (about.workflow_id, about.is_success, about.value_pico_usd) == ("w1", False, None)


@pytest.mark.parametrize(
    ("value", "pico_usd"),
    [("1.25", 1_250_000_000_000), (0.1, 10**11), (3, 3 * 10**12), ("0.000000000001", 1), (-2, -2 * 10**12), (0, 0)],
)
def test_a_value_is_exact_however_it_is_written(value, pico_usd):
    assert told(value=value).value_pico_usd == pico_usd


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"request_id": "r"}',
        b'{"success": 1, "request_id": "r"}',
        b'{"success": true}',
        b'{"success": true, "request_id": "r", "workflow_id": "w"}',
        b'{"success": true, "request_id": 5}',
        b'{"success": true, "request_id": "%b"}' % (b"x" * 129),
        b'{"success": true, "request_id": "r", "value": "1e-13"}',
        b'{"success": true, "request_id": "r", "value": "1e400"}',
        b'{"success": true, "request_id": "r", "value": 1e99999999999}',
        b'{"success": true, "request_id": "r", "value": "NaN"}',
        b'{"success": true, "request_id": "r", "value": "1_0"}',
        '{"success": true, "request_id": "r", "value": "٣"}'.encode(),
        b'{"success": true, "request_id": "r", "value": ["1"]}',
        b'{"success": true, "request_id": "r", "value": true}',
        b'{"success": true, "request_id": "r", "value": "Infinity"}',
        b'{"success": true, "request_id": "r", "value": 99999999999}',
        b'{"success": true, "request_id": "r", "value_usd": 5}',
        b'{"success": true, "request_id": "a\\u0000b"}',
        b'{"success": true, "workflow_id": "a\\nb"}',
    ],
)
def test_what_is_no_outcome_is_refused_as_a_bad_request(body):
    with pytest.raises(GatewayError) as refused:
        read_outcome(body)
    assert (refused.value.status, refused.value.code) == (400, "invalid_outcome")


def test_the_answer_says_what_was_understood():
    assert json.loads(outcome_body(told(value="1.250"))) == {
        "object": "outcome",
        "success": True,
        "request_id": "r1",
        "value": "1.25",
    }

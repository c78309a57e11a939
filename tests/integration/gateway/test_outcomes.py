"""POST /v1/outcomes at a real gateway, over a real socket, into a real spool."""

import json

import pytest

from tests.support.gateways import chat_body, running_gateway, snapshot_for
from workers.gateway import errors

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
OUTCOMES = "/v1/outcomes"


@pytest.fixture
async def gateway(tmp_path):
    """Without an engine and without a control plane: neither is needed to take a report."""
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, []))) as running:
        yield running


async def test_a_report_is_in_the_spool_with_the_keys_tenant_before_it_is_answered(gateway):
    report = {"request_id": "r1", "success": True, "value": "0.5"}
    answer = await gateway.call("POST", OUTCOMES, report, tenant="standard")
    (record,) = gateway.records()
    assert answer.status == 200
    assert json.loads(answer.body) == {"object": "outcome"} | report
    assert (record.tenant_id, record.key_id, record.path) == ("standard", "key-standard", OUTCOMES)
    assert record.task_outcome.value_pico_usd == 5 * 10**11
    assert (record.cost_pico_usd, record.input_tokens, record.usage_source) == (0, 0, "none")


async def test_reports_have_their_numbers_among_the_records(gateway):
    hurried = {"x-request-deadline-ms": "50"}
    await gateway.call("POST", CHAT, chat_body("hello"), headers=hurried)
    await gateway.call("POST", OUTCOMES, {"workflow_id": "w", "success": False})
    await gateway.call("POST", CHAT, chat_body("hello again"), headers=hurried)
    assert [record.sequence for record in gateway.records()] == [1, 2, 3]


@pytest.mark.parametrize(
    ("method", "body", "headers", "status"),
    [
        ("GET", None, {}, 405),
        ("POST", {"success": True}, {}, 400),
        ("POST", {"request_id": "r", "success": True}, {"Authorization": "Bearer wrong"}, 401),
        ("POST", {"request_id": "r", "success": True}, {"Authorization": ""}, 401),
    ],
)
async def test_what_is_refused_leaves_nothing_behind(gateway, method, body, headers, status):
    answer = await gateway.call(method, OUTCOMES, body, headers=headers)
    assert (answer.status, gateway.records()) == (status, [])


async def test_a_report_that_cannot_be_kept_is_not_taken(gateway):
    gateway.service._surface.stop_reason = errors.spool_unavailable()
    answer = await gateway.call("POST", OUTCOMES, {"request_id": "r", "success": True})
    gateway.service._surface.stop_reason = None
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (503, "spool_unavailable")


async def test_reports_are_no_requests_in_the_counters(gateway):
    await gateway.call("POST", OUTCOMES, {"request_id": "r", "success": True})
    assert gateway.service._meter.requests_total == 0

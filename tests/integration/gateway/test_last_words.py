"""Of an answer that nobody waits for any more the record says what the engine had made, to the token."""

import asyncio

import pytest

from tests.integration.gateway.test_lifecycle import CHAT, SLOW, engine_ledger, open_stream
from tests.support.fake_engines import fake_engine
from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for, without_limits
from tests.support.raw_http import request_bytes
from tests.support.scripted_engine import scripted_engine, stream, whole

pytestmark = pytest.mark.integration

LONG = {"stream": True, "max_tokens": 1000, "ignore_eos": True}
FAST = ("--served-model-name", "demo-chat", "--time-scale", "0.2")


def event(number: int) -> bytes:
    counts = b'{"prompt_tokens":3,"total_tokens":%d,"completion_tokens":%d}' % (3 + number, number)
    return b'data: {"choices":[{"index":0,"delta":{"content":"x"}}],"usage":%b}\n\n' % counts


@pytest.mark.parametrize("choices", [1, 3])
async def test_clients_that_leave_are_billed_what_the_engine_made(tmp_path, choices):
    async with (
        fake_engine(*FAST) as engine,
        running_gateway(tmp_path, without_limits(snapshot_for(("demo-chat", 100, [engine.port])))) as gateway,
    ):
        for number in range(12):
            body = chat_body(f"question {number}", **LONG, n=choices)
            _, writer = await open_stream(
                gateway.port, body, events=5 + 7 * number, headers={"X-Request-Id": f"left-{number}"}
            )
            writer.transport.abort()
        records = await gateway.wait_for_records(12)
        made = [(await engine_ledger(engine, record.request_id))[0] for record in records]
    assert {(record.outcome, record.usage_source) for record in records} == {("client_left", "engine")}
    assert [record.output_tokens for record in records] == [entry["completion_tokens"] for entry in made]


async def test_what_a_client_that_does_not_read_leaves_unread_is_counted_when_it_goes(tmp_path):
    async with (
        fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.05") as engine,
        running_gateway(tmp_path, without_limits(snapshot_for(("demo-chat", 100, [engine.port])))) as gateway,
    ):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024)
        headers = authorised() | {"X-Request-Id": "unread"}
        writer.write(request_bytes("POST", CHAT, chat_body(**(LONG | {"max_tokens": 7000, "n": 32})), headers))
        await reader.readexactly(100)
        await asyncio.sleep(0.5)
        writer.transport.abort()
        [record] = await gateway.wait_for_records(1)
        [entry] = await engine_ledger(engine, "unread")
    assert (record.outcome, record.usage_source) == ("client_left", "engine")
    assert record.output_tokens == entry["completion_tokens"] > 0


async def test_a_workflow_that_is_late_is_billed_what_the_engine_made_of_its_call(tmp_path):
    flow = {"x-workflow-id": "w", "x-workflow-deadline-ms": "600", "X-Request-Id": "late"}
    async with (
        fake_engine(*FAST) as engine,
        running_gateway(tmp_path, without_limits(snapshot_for(("demo-chat", 100, [engine.port])))) as gateway,
    ):
        answer = await gateway.call("POST", CHAT, chat_body(**(LONG | {"max_tokens": 7000})), headers=flow)
        [record] = await gateway.wait_for_records(1)
        [entry] = await engine_ledger(engine, "late")
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert record.error_code == "workflow_deadline"
    assert record.output_tokens == entry["completion_tokens"] > 0


async def test_a_gateway_that_stops_bills_what_the_engine_made(tmp_path):
    async with fake_engine(*SLOW) as engine:
        snapshot = without_limits(snapshot_for(("demo-chat", 100, [engine.port])))
        async with running_gateway(tmp_path, snapshot, grace_s=0.1) as gateway:
            reader, writer = await open_stream(
                gateway.port, chat_body(**LONG), events=20, headers={"X-Request-Id": "cut"}
            )
        rest = await reader.read(-1)
        writer.close()
        [record] = gateway.records()
        [entry] = await engine_ledger(engine, "cut")
    assert b'"code":"shutting_down"' in rest
    assert record.error_code == "shutting_down"
    assert record.output_tokens == entry["completion_tokens"] > 0


async def test_an_engine_that_goes_on_all_the_same_is_cut_off_after_a_second(tmp_path):
    async with (
        scripted_engine(stream([event(number + 1) for number in range(5000)])) as engine,
        running_gateway(tmp_path, without_limits(snapshot_for(("demo-chat", 100, [engine.port])))) as gateway,
    ):
        _, writer = await open_stream(gateway.port, chat_body(**LONG), events=5)
        writer.transport.abort()
        [record] = await gateway.wait_for_records(1)
    assert record.outcome == "client_left"
    assert 5 < record.output_tokens < 5000


async def test_a_whole_answer_that_was_on_its_way_when_its_client_left_is_billed_as_it_is(tmp_path):
    [answer] = whole(b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":77}}')
    slow = [answer[:20], *[b""] * 200, answer[20:]]
    async with (
        scripted_engine(slow) as engine,
        running_gateway(tmp_path, without_limits(snapshot_for(("demo-chat", 100, [engine.port])))) as gateway,
    ):
        _, writer = await open_stream(gateway.port, chat_body(), events=0)
        while not engine.seen:  # noqa: ASYNC110 - a list has no event
            await asyncio.sleep(0.01)
        writer.transport.abort()
        [record] = await gateway.wait_for_records(1)
    assert (record.outcome, record.usage_source, record.output_tokens) == ("client_left", "engine", 77)


async def test_an_engine_is_asked_by_another_connection_after_one_was_hung_up(tmp_path):
    async with (
        fake_engine(*FAST) as engine,
        running_gateway(tmp_path, without_limits(snapshot_for(("demo-chat", 100, [engine.port])))) as gateway,
    ):
        for _ in range(5):
            _, writer = await open_stream(gateway.port, chat_body(**LONG), events=4)
            writer.transport.abort()
            answer = await gateway.chat()
            assert answer.status == 200

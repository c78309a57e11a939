"""An engine that has no room now: it is left alone for as long as it asks, and another one is asked if there is one."""

import asyncio

import pytest

from tests.support.fake_engines import fake_engine
from tests.support.gateways import running_gateway, snapshot_for
from tests.support.scripted_engine import scripted_engine

pytestmark = pytest.mark.integration

WORDS = b'{"error":{"message":"No room, says the engine.","code":%d}}'


def refusal(status, retry_after=b"60"):
    body = WORDS % status
    head = b"HTTP/1.1 %d Busy\r\ncontent-type: application/json\r\nretry-after: %b\r\ncontent-length: %d\r\n\r\n"
    return [head % (status, retry_after, len(body)) + body]


@pytest.mark.parametrize("status", [429, 503])
async def test_a_lone_engines_word_goes_to_the_client_as_it_is_and_the_engine_has_its_pause(tmp_path, status):
    async with (
        scripted_engine(refusal(status)) as busy,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [busy.port]))) as gateway,
    ):
        answer = await gateway.chat()
        second = asyncio.create_task(gateway.chat())
        await asyncio.sleep(0.2)
        assert len(busy.seen) == 1
        second.cancel()
        [record] = await gateway.wait_for_records(1)
    assert (answer.status, answer.body) == (status, WORDS % status)
    assert dict(answer.headers)["retry-after"] == "60"
    assert (record.status, record.attempts, record.usage_source, record.cost_pico_usd) == (status, 1, "none", 0)


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("is_stream", [False, True])
async def test_another_engine_answers_in_its_place(tmp_path, status, is_stream):
    async with (
        scripted_engine(refusal(status)) as busy,
        fake_engine("--served-model-name", "demo-chat") as other,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [busy.port, other.port]))) as gateway,
    ):
        answers = [await gateway.chat(stream=is_stream) for _ in range(6)]
        records = await gateway.wait_for_records(6)
    assert {answer.status for answer in answers} == {200}
    assert len(busy.seen) == 1
    assert sorted(record.attempts for record in records) == [1, 1, 1, 1, 1, 2]
    assert sum(record.wasted_tokens for record in records) == 0


async def test_when_all_turn_it_away_the_client_gets_the_last_ones_word_at_once(tmp_path):
    async with (
        scripted_engine(refusal(503)) as one,
        scripted_engine(refusal(503)) as two,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [one.port, two.port]))) as gateway,
    ):
        answer = await asyncio.wait_for(gateway.chat(), 5)
        [record] = await gateway.wait_for_records(1)
    assert (answer.status, answer.body) == (503, WORDS % 503)
    assert (len(one.seen), len(two.seen), record.attempts) == (1, 1, 2)


async def test_an_answer_that_never_ends_is_given_up_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("workers.gateway.exchanges.receiving.MAX_WHOLE_ANSWER_BYTES", 100_000)
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    endless = [head, *[b"ffff\r\n" + b" " * 0xFFFF + b"\r\n"] * 4]
    async with (
        scripted_engine(endless) as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway,
    ):
        answer = await gateway.chat()
        [record] = await gateway.wait_for_records(1)
    assert (answer.status, answer.json()["error"]["code"]) == (502, "engine_died")
    assert (record.outcome, record.status, record.error_code) == ("failed", 502, "engine_died")


async def test_engines_that_break_off_before_any_answer_are_tried_as_often_as_may_be_and_then_it_is_said(tmp_path):
    async with (
        scripted_engine([], closes=True) as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway,
    ):
        answer = await gateway.chat()
        [record] = await gateway.wait_for_records(1)
    assert (answer.status, answer.json()["error"]["code"]) == (502, "engine_unavailable")
    assert (record.outcome, record.status, record.attempts) == ("failed", 502, len(engine.seen))

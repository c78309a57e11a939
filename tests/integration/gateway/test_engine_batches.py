"""Requests gathered for an engine that does not batch by itself: one call there, each client's own answer here."""

import asyncio
import time

import msgspec
import pytest

from tests.support.fake_engines import fake_engine
from tests.support.gateways import running_gateway, snapshot_for, with_shape, with_task
from tests.support.raw_http import call
from tests.support.scripted_engine import scripted_engine, whole
from workers.contracts.endpoints import BatchShape

pytestmark = pytest.mark.integration

EMBED = ("--task", "embed", "--served-model-name", "small", "--embedding-dimensions", "8")
PATH = "/v1/embeddings"


def gathered(*ports, **batching):
    """A window long enough for all that a test sends, and as many as it says."""
    shape = BatchShape(**{"max_requests": 4, "window_ms": 300.0} | batching)
    built = with_shape(with_task(snapshot_for(("small", 100, ports)), "embed"), 0.05)
    endpoints = [
        msgspec.structs.replace(endpoint, shape=msgspec.structs.replace(endpoint.shape, batching=shape))
        for endpoint in built.endpoints
    ]
    return msgspec.structs.replace(built, endpoints=endpoints)


def body(wanted, **fields):
    return {"model": "demo-chat", "input": wanted} | fields


async def calls_of(engine):
    return (await call(engine.port, "GET", "/fake/requests")).json()["requests"]


async def ask(gateway, *bodies):
    return await asyncio.gather(*[gateway.call("POST", PATH, one) for one in bodies])


def vectors(answer):
    return [(item["index"], item["embedding"]) for item in answer.json()["data"]]


async def test_a_full_batch_is_one_call_and_each_client_gets_what_it_would_have_got_alone(tmp_path):
    wanted = [body("one"), body(["two two", "three"]), body("four four", user="u"), body(["five"])]
    async with fake_engine(*EMBED) as alone, fake_engine(*EMBED) as engine:
        expected = [(await call(alone.port, "POST", PATH, one | {"model": "small"})).json()["data"] for one in wanted]
        async with running_gateway(tmp_path, gathered(engine.port)) as gateway:
            answers = await ask(gateway, *wanted)
            records = await gateway.wait_for_records(4)
            seen = await calls_of(engine)
    assert [answer.json()["data"] for answer in answers] == expected
    assert {answer.json()["model"] for answer in answers} == {"demo-chat"}
    assert len({dict(answer.headers)["x-request-id"] for answer in answers}) == 4
    assert len(seen) == 1
    assert sum(record.input_tokens for record in records) == 7
    assert {(record.usage_source, record.outcome) for record in records} == {("estimated", "completed")}
    assert sum(answer.json()["usage"]["prompt_tokens"] for answer in answers) == 7


async def test_token_ids_are_billed_as_the_engine_counts_them(tmp_path):
    async with fake_engine(*EMBED) as engine, running_gateway(tmp_path, gathered(engine.port)) as gateway:
        await ask(gateway, body([1, 2, 3]), body([[4], [5, 6]]), body([7]), body([[8, 9]]))
        records = await gateway.wait_for_records(4)
        assert len(await calls_of(engine)) == 1
    assert sorted(record.input_tokens for record in records) == [1, 2, 3, 3]
    assert {record.usage_source for record in records} == {"engine"}


async def test_a_window_that_closes_sends_what_there_is(tmp_path):
    async with (
        fake_engine(*EMBED) as engine,
        running_gateway(tmp_path, gathered(engine.port, max_requests=32, window_ms=200.0)) as gateway,
    ):
        began = time.monotonic()
        answers = await ask(gateway, body("one"), body("two"))
        assert time.monotonic() - began >= 0.15
        assert len(await calls_of(engine)) == 1
    assert [answer.status for answer in answers] == [200, 200]


async def test_what_has_other_parameters_goes_by_itself(tmp_path):
    async with fake_engine(*EMBED) as engine, running_gateway(tmp_path, gathered(engine.port)) as gateway:
        answers = await ask(gateway, body("one"), body("two"), body("three", encoding_format="base64"), body([1, 2]))
        assert len(await calls_of(engine)) == 3
        await gateway.wait_for_records(4)
    assert [answer.status for answer in answers] == [200] * 4
    assert isinstance(answers[2].json()["data"][0]["embedding"], str)


async def test_one_that_the_engine_refuses_hears_so_and_the_others_have_their_answers(tmp_path):
    async with (
        fake_engine(*EMBED, "--max-model-len", "16") as engine,
        running_gateway(tmp_path, gathered(engine.port)) as gateway,
    ):
        answers = await ask(gateway, body("one"), body("two"), body("word " * 50), body("four"))
        records = await gateway.wait_for_records(4)
    assert [answer.status for answer in answers] == [200, 200, 400, 200]
    assert sorted(record.outcome for record in records) == ["completed", "completed", "completed", "rejected"]
    assert {r.usage_source for r in records if r.outcome == "completed"} == {"engine"}


async def test_an_engine_that_fails_fails_each_and_frees_its_place(tmp_path):
    failure = whole(b'{"error":"no"}', status="500 Oops")
    async with scripted_engine(failure) as engine, running_gateway(tmp_path, gathered(engine.port)) as gateway:
        answers = await ask(gateway, *[body(f"{n}") for n in range(4)])
        await gateway.wait_for_records(4)
        assert gateway.service._driver.scheduler.running_total() == 0
    assert {(answer.status, answer.body) for answer in answers} == {(500, b'{"error":"no"}')}
    assert len(engine.seen) == 1


async def test_a_client_that_leaves_takes_nothing_from_the_others(tmp_path):
    async with (
        fake_engine(*EMBED, "--time-scale", "20") as engine,
        running_gateway(tmp_path, gathered(engine.port)) as gateway,
    ):
        asked = [asyncio.create_task(gateway.call("POST", PATH, body(f"word {n}"))) for n in range(4)]
        await asyncio.sleep(0.1)
        asked[1].cancel()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        records = await gateway.wait_for_records(4)
    assert [getattr(answer, "status", None) for answer in answers] == [200, None, 200, 200]
    assert sorted(record.outcome for record in records) == ["client_left", "completed", "completed", "completed"]

"""Why each request went as it did, for all that can happen to one, as the gateway tells it afterwards."""

import asyncio
import time

import pytest

from tests.support.fake_engines import fake_engine, free_port
from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for, with_shape
from tests.support.raw_http import call, request_bytes

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
LONG = {"max_tokens": 2000, "ignore_eos": True}


def named(name, **headers):
    return {"x-request-id": name} | {key.replace("_", "-"): value for key, value in headers.items()}


def story(gateway, name):
    """(what, detail) of each step."""
    told = gateway.service.explain(name)
    assert told is not None, name
    return [(step.what, step.detail) for step in told.steps]


async def until_over(gateway, name):
    deadline = time.monotonic() + 20
    while (told := gateway.service.explain(name)) is None or not told.is_over:
        assert time.monotonic() < deadline, "it is not over"
        await asyncio.sleep(0.02)


async def test_what_never_reached_the_queue_is_explained(tmp_path):
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [free_port()]))) as gateway:
        for name, body, headers in (
            ("unknown", chat_body() | {"model": "nobody"}, {}),
            ("unsound", chat_body(), {"x_request_deadline_ms": "soon"}),
        ):
            answer = await gateway.call("POST", CHAT, body, headers=named(name, **headers))
            assert answer.status in (400, 404)
        assert story(gateway, "unknown") == [("arrived", ""), ("rejected", "model_not_found")]
        assert story(gateway, "unsound") == [("arrived", ""), ("rejected", "invalid_header")]


async def test_a_workflow_that_is_cut_off_says_so_of_each_of_its_calls(tmp_path):
    flow = {"x_workflow_id": "w", "x_workflow_deadline_ms": "700"}
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "1") as engine:
        snapshot = with_shape(snapshot_for(("demo-chat", 100, [engine.port])), 1.0)
        async with running_gateway(tmp_path, snapshot) as gateway:
            await gateway.call("POST", CHAT, chat_body(**LONG), headers=named("running", **flow))
            await gateway.call("POST", CHAT, chat_body(), headers=named("after", **flow))
            running, after = story(gateway, "running"), story(gateway, "after")
    assert running[-1] == ("cancelled", "workflow_deadline")
    assert after == [("arrived", ""), ("rejected", "workflow_deadline")]


async def test_a_stream_that_moved_names_both_engines(tmp_path):
    async with (
        fake_engine("--served-model-name", "demo-chat", "--reset-after-tokens", "7") as breaking,
        fake_engine("--served-model-name", "demo-chat") as whole,
    ):
        snapshot = with_shape(snapshot_for(("demo-chat", 100, [breaking.port, whole.port])), 0.05)
        async with running_gateway(tmp_path, snapshot) as gateway:
            ids = {engine.endpoint.base_url: engine.endpoint.endpoint_id for engine in gateway.service._driver.engines}
            broke, went_on = (ids[f"http://127.0.0.1:{engine.port}"] for engine in (breaking, whole))
            for number in range(6):
                body = chat_body(stream=True, max_tokens=60, ignore_eos=True)
                await gateway.call("POST", CHAT, body, headers=named(f"s{number}"))
                steps = story(gateway, f"s{number}")
                if ("sent", broke) in steps:
                    break
    assert [step for step in steps if step[0] in ("sent", "failed", "migrated")] == [
        ("sent", broke),
        ("failed", broke),
        ("migrated", went_on),
    ]
    assert steps[-1][0] == "completed"


async def test_a_client_that_leaves_and_one_that_finds_the_queue_full(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "2") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        snapshot = with_shape(snapshot, 2.0, max_running_requests=1)
        async with running_gateway(tmp_path, snapshot) as gateway:
            _, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
            writer.write(request_bytes("POST", CHAT, chat_body(**LONG), authorised() | named("left")))
            await asyncio.sleep(0.3)
            answer = await gateway.call("POST", CHAT, chat_body(), headers=named("late", x_request_deadline_ms="300"))
            assert answer.status in (429, 503)
            writer.transport.abort()
            await until_over(gateway, "left")
            left, late = story(gateway, "left"), gateway.service.explain("late")
            assert (await call(engine.port, "GET", "/health")).status == 200
    assert left[-1] == ("withdrawn", "")
    assert late.steps[-1].what == "refused"
    assert late.steps[-1].detail
    assert late.choices, "and who was considered"

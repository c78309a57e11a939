"""Traces as a collector gets them over HTTP."""

import asyncio
import re
import time
from contextlib import asynccontextmanager

import pytest

from tests.support.collector import collector
from tests.support.fake_engines import fake_engine, free_port
from tests.support.gateways import chat_body, running_gateway, snapshot_for
from tests.support.scripted_engine import scripted_engine, whole
from workers.gateway.tracing import exporter
from workers.gateway.tracing.assembly import TracingConfig

pytestmark = pytest.mark.integration

STAGES = {"receive", "queue", "dispatch", "first_token", "generate"}
GIVEN = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
NOT_SAMPLED = GIVEN[:-2] + "00"


@asynccontextmanager
async def traced(tmp_path, url, **options):
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        tracing = TracingConfig(url=url, **options)
        async with running_gateway(tmp_path, snapshot, tracing=tracing) as gateway:
            yield engine, gateway


def attributes(span):
    return {one["key"]: next(iter(one["value"].values())) for one in span["attributes"]}


async def spans(collected, count):
    return {span["name"]: span for span in await asyncio.to_thread(collected.wait_for_spans, count)}


def parents_seen_by(engine):
    return [re.search(rb"\r\ntraceparent: ([^\r]*)\r\n", seen)[1].decode() for seen in engine.seen]


@asynccontextmanager
async def traced_to_script(tmp_path, tracing):
    async with (
        scripted_engine(whole(b"{}")) as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port])), tracing=tracing) as gateway,
    ):
        yield engine, gateway


async def test_a_stream_is_a_tree_of_its_stages(tmp_path):
    with collector() as collected:
        async with traced(tmp_path, collected.url) as (_, gateway):
            answer = await gateway.call(
                "POST",
                "/v1/chat/completions",
                chat_body("a secret prompt", stream=True),
                headers={"X-Request-Id": "r1"},
            )
            found = await spans(collected, 6)
            [record] = gateway.records()
    root = found["chat demo-chat"]
    assert set(found) == STAGES | {"chat demo-chat"}
    assert {span["traceId"] for span in found.values()} == {root["traceId"]}
    assert root["parentSpanId"] == ""
    assert {found[name]["parentSpanId"] for name in ("receive", "queue", "dispatch")} == {root["spanId"]}
    assert {found[name]["parentSpanId"] for name in ("first_token", "generate")} == {found["dispatch"]["spanId"]}
    assert len({span["spanId"] for span in found.values()}) == 6
    ends = [int(found[name]["endTimeUnixNano"]) for name in ("receive", "queue", "first_token", "generate")]
    assert ends == sorted(ends)
    assert int(root["startTimeUnixNano"]) == int(found["receive"]["startTimeUnixNano"])
    assert abs(int(root["startTimeUnixNano"]) / 1e9 - time.time()) < 300
    shown = attributes(root)
    assert shown["gen_ai.operation.name"] == "chat"
    assert shown["gen_ai.request.model"] == "demo-chat"
    assert shown["gen_ai.usage.input_tokens"] == str(record.input_tokens)
    assert shown["gen_ai.usage.output_tokens"] == str(record.output_tokens)
    assert shown["http.response.status_code"] == "200"
    assert shown["tokenyard.request.id"] == "r1"
    [(path, headers, message)] = collected.requests
    assert path == "/v1/traces"
    assert headers["content-type"] == "application/json"
    assert "secret" not in str(message)
    assert b"data: [DONE]" in answer.body


async def test_a_trace_of_the_clients_goes_on_through_the_gateway_to_the_engine(tmp_path):
    with collector() as collected:
        async with traced_to_script(tmp_path, TracingConfig(url=collected.url)) as (engine, gateway):
            await gateway.call("POST", "/v1/chat/completions", chat_body(), headers={"traceparent": GIVEN})
            found = await spans(collected, 4)
    root, dispatch = found["chat demo-chat"], found["dispatch"]
    assert (root["traceId"], root["parentSpanId"]) == tuple(GIVEN.split("-")[1:3])
    assert parents_seen_by(engine) == [f"00-{root['traceId']}-{dispatch['spanId']}-01"]


async def test_what_the_client_does_not_sample_is_not_sent(tmp_path):
    with collector() as collected:
        async with traced_to_script(tmp_path, TracingConfig(url=collected.url)) as (engine, gateway):
            for parent in (NOT_SAMPLED, GIVEN):
                await gateway.call("POST", "/v1/chat/completions", chat_body(), headers={"traceparent": parent})
        assert [span["name"] for span in collected.taken] == ["chat demo-chat", "receive", "queue", "dispatch"]
    assert [parent[-2:] for parent in parents_seen_by(engine)] == ["00", "01"]


async def test_a_ratio_of_none_sends_none_that_begin_here(tmp_path):
    with collector() as collected:
        async with traced_to_script(tmp_path, TracingConfig(url=collected.url, ratio=0.0)) as (engine, gateway):
            await gateway.chat()
    assert parents_seen_by(engine)[0].endswith("-00")
    assert collected.requests == []


async def test_a_refusal_has_its_error(tmp_path):
    with collector() as collected:
        async with traced(tmp_path, collected.url) as (_, gateway):
            await gateway.call("POST", "/v1/chat/completions", chat_body(model="gpt-none"))
            await gateway.call("POST", "/v1/chat/completions", {})
            found = await asyncio.to_thread(collected.wait_for_spans, 4)
    errors = [attributes(span)["error.type"] for span in found if span["kind"] == 2]
    assert errors == ["model_not_found", "missing_model"]


async def test_spans_come_before_the_gateway_ends_and_with_its_headers(tmp_path):
    with collector() as collected:
        async with traced(tmp_path, collected.url + "/v1/traces/", headers={"x-token": "t"}) as (_, gateway):
            for _ in range(20):
                await gateway.chat()
        assert len(collected.taken) == 120
        assert {path for path, _, _ in collected.requests} == {"/v1/traces"}
        assert all(headers["x-token"] == "t" for _, headers, _ in collected.requests)


async def test_a_collector_that_is_busy_is_asked_again(tmp_path):
    with collector() as collected:
        collected.statuses = [503]
        async with traced(tmp_path, collected.url) as (_, gateway):
            await gateway.chat()
            await spans(collected, 4)
            assert gateway.service.metrics.spans.dropped == 0
    assert len(collected.requests) == 2


@pytest.mark.parametrize("statuses", [[400], [503, 503, 503]], ids=["refuses", "stays busy"])
async def test_what_a_collector_does_not_take_is_dropped_and_counted(tmp_path, statuses):
    with collector() as collected:
        collected.statuses = list(statuses)
        async with traced(tmp_path, collected.url) as (_, gateway):
            await gateway.chat()
            await asyncio.to_thread(collected.wait_for_requests, len(statuses))
        assert (gateway.service.metrics.spans.sent, gateway.service.metrics.spans.dropped) == (0, 6)


async def test_without_a_collector_requests_are_served_as_ever(tmp_path):
    async with traced(tmp_path, f"http://127.0.0.1:{free_port()}") as (_, gateway):
        answers = [await gateway.chat() for _ in range(3)]
        assert [answer.status for answer in answers] == [200] * 3
    assert gateway.service.metrics.spans.dropped == 18


async def test_a_collector_that_never_answers_holds_nobody_up(tmp_path, monkeypatch):
    monkeypatch.setattr(exporter, "TIMEOUT_S", 0.5)
    monkeypatch.setattr(exporter, "MAX_WAITING", 5)

    async def say_nothing(reader, writer):
        await reader.read(-1)
        writer.close()

    silent = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
    async with silent, traced(tmp_path, url) as (_, gateway):
        answers = [await gateway.chat(max_tokens=1) for _ in range(40)]
        assert {answer.status for answer in answers} == {200}
        assert len(gateway.service._tracing.exporter._waiting) <= 5
    assert len(gateway.records()) == 40
    assert gateway.service.metrics.spans.dropped > 0
    assert gateway.service.metrics.spans.sent == 0


async def test_a_trace_that_nobody_asked_for_stays_as_the_client_sent_it(tmp_path):
    async with traced_to_script(tmp_path, None) as (engine, gateway):
        await gateway.call("POST", "/v1/chat/completions", chat_body(), headers={"traceparent": GIVEN})
    assert parents_seen_by(engine) == [GIVEN]

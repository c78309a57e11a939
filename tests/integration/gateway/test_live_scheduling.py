"""What the scheduler is told by a running gateway, and what clients and engines see of it."""

import asyncio
import socket
import time

import msgspec
import pytest

from tests.support.fake_engines import fake_engine, free_port
from tests.support.gateways import authorised, chat_body, message_body, running_gateway, snapshot_for, with_shape
from tests.support.raw_http import call, request_bytes

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
SLOW = ("--served-model-name", "demo-chat", "--time-scale", "2")
CANCEL_WITHIN_S = 0.5


def shaped(snapshot, **changes):
    return with_shape(snapshot, 0.05, **changes)


async def ask_and_leave(gateway, body, *, after_events=0, wait_s=0.2):
    """Sends a request and closes the connection in the middle of it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    writer.write(request_bytes("POST", CHAT, body, authorised()))
    for _ in range(after_events):
        await asyncio.wait_for(reader.readuntil(b"\n\n\r\n"), 10)
    await asyncio.sleep(wait_s)
    writer.transport.abort()


async def until(condition, within_s):
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        await asyncio.sleep(0.01)


async def engine_is_free(engine):
    answer = await call(engine.port, "GET", "/fake/requests")
    return all(entry["outcome"] == "abort" for entry in answer.json()["requests"]) and engine.engine.load == 0


@pytest.mark.parametrize(
    ("body", "events"),
    [
        pytest.param(chat_body("word " * 7000, stream=True, max_tokens=100, ignore_eos=True), 0, id="in its prefill"),
        pytest.param(chat_body(stream=True, max_tokens=1000, ignore_eos=True), 5, id="in its stream"),
        pytest.param(chat_body(max_tokens=1000, ignore_eos=True), 0, id="in a whole answer"),
    ],
)
async def test_a_client_that_leaves_frees_the_engine_within_half_a_second(tmp_path, body, events):
    async with (
        fake_engine(*SLOW) as engine,
        running_gateway(tmp_path, shaped(snapshot_for(("demo-chat", 100, [engine.port])))) as gateway,
    ):
        await ask_and_leave(gateway, body, after_events=events)
        await until(lambda: engine.engine.load == 0, CANCEL_WITHIN_S)
        [record] = await gateway.wait_for_records(1)
        assert await engine_is_free(engine)
    assert record.outcome == "client_left"


async def test_a_client_that_leaves_the_queue_is_never_sent(tmp_path):
    async with fake_engine(*SLOW) as engine:
        snapshot = shaped(snapshot_for(("demo-chat", 100, [engine.port])), max_running_requests=1)
        async with running_gateway(tmp_path, snapshot) as gateway:
            first = asyncio.create_task(gateway.chat(max_tokens=30, ignore_eos=True))
            await asyncio.sleep(0.1)
            await ask_and_leave(gateway, chat_body())
            await until(lambda: gateway.service._driver.scheduler.queued_total() == 0, CANCEL_WITHIN_S)
            await first
            ledger = (await call(engine.port, "GET", "/fake/requests")).json()["requests"]
    assert len(ledger) == 1


async def test_a_client_that_leaves_while_the_engine_is_being_connected_to_leaves_nothing(tmp_path):
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        port = deaf.getsockname()[1]
        fillers = []
        for _ in range(2):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(("127.0.0.1", port))
            fillers.append(filler)
        async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [port]))) as gateway:
            await ask_and_leave(gateway, chat_body())
            await until(lambda: gateway.service._driver.scheduler.running_total() == 0, CANCEL_WITHIN_S)
            [record] = await gateway.wait_for_records(1)
        for filler in fillers:
            filler.close()
    assert (record.outcome, record.usage_source) == ("client_left", "none")


async def test_a_class_goes_with_its_priority_to_engines_that_have_any(tmp_path):
    for has_priorities, expected in ((True, [0, 2]), (False, [0, 0])):
        async with fake_engine("--served-model-name", "demo-chat") as engine:
            snapshot = with_shape(snapshot_for(("demo-chat", 100, [engine.port])), 0.05, has_priorities=has_priorities)
            async with running_gateway(tmp_path, snapshot) as gateway:
                for tenant in ("gold", "batch"):
                    assert (await gateway.chat(tenant=tenant)).status == 200
            ledger = (await call(engine.port, "GET", "/fake/requests")).json()["requests"]
        assert [entry["priority"] for entry in ledger] == expected


async def test_nobody_jumps_the_queue_by_naming_a_priority(tmp_path):
    async with (
        fake_engine("--served-model-name", "demo-chat") as engine,
        running_gateway(tmp_path, shaped(snapshot_for(("demo-chat", 100, [engine.port])))) as gateway,
    ):
        await gateway.call("POST", CHAT, chat_body(priority=-9), tenant="batch", headers={"X-Vllm-Priority": "-9"})
        [entry] = (await call(engine.port, "GET", "/fake/requests")).json()["requests"]
    assert entry["priority"] == 2


async def test_an_unsound_header_is_refused_in_the_words_of_the_path(tmp_path):
    headers = {"X-Request-Deadline-Ms": "soon"}
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [free_port()]))) as gateway:
        openai = await gateway.call("POST", CHAT, chat_body(), headers=headers)
        anthropic = await gateway.call("POST", "/v1/messages", message_body(), headers=headers)
        records = await gateway.wait_for_records(2)
    assert (openai.status, openai.json()["error"]["code"]) == (400, "invalid_header")
    assert openai.json()["error"]["param"] == "x-request-deadline-ms"
    assert (anthropic.status, anthropic.json()["error"]["type"]) == (400, "invalid_request_error")
    assert ("x-error-code", "invalid_header") in anthropic.headers
    assert [record.outcome for record in records] == ["rejected", "rejected"]


async def test_a_deadline_that_no_engine_could_keep_is_refused_at_once_and_not_for_later(tmp_path):
    async with (
        fake_engine("--served-model-name", "demo-chat", "--time-scale", "1") as engine,
        running_gateway(tmp_path, with_shape(snapshot_for(("demo-chat", 100, [engine.port])), 1.0)) as gateway,
    ):
        hurried = await gateway.call("POST", CHAT, chat_body(max_tokens=50), headers={"X-Request-Deadline-Ms": "1"})
        patient = await gateway.call("POST", CHAT, chat_body(), headers={"X-Request-Deadline-Ms": "60000"})
        ledger = (await call(engine.port, "GET", "/fake/requests")).json()["requests"]
    assert (hurried.status, hurried.json()["error"]["code"]) == (429, "deadline")
    assert "retry-after" not in dict(hurried.headers)
    assert (patient.status, len(ledger)) == (200, 1)


async def test_an_engine_of_unknown_speed_refuses_nothing_for_a_limit(tmp_path):
    profiles = [msgspec.structs.replace(profile, ttft_ms=1, tpot_ms=1) for profile in snapshot_for().slo_profiles]
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "1") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]), slo_profiles=profiles)
        async with running_gateway(tmp_path, snapshot) as gateway:
            answers = await asyncio.gather(*[gateway.chat(max_tokens=5) for _ in range(40)])
    assert {answer.status for answer in answers} == {200}


async def test_the_gateway_reads_what_the_engine_says_of_itself(tmp_path):
    async with (
        fake_engine(*SLOW, "--num-gpu-blocks-override", "1024") as engine,
        running_gateway(tmp_path, shaped(snapshot_for(("demo-chat", 100, [engine.port])))) as gateway,
    ):
        asked = asyncio.create_task(gateway.chat(max_tokens=40, ignore_eos=True))
        [known] = gateway.service._driver.engines
        await until(lambda: known.reading is not None and known.reading.running_requests == 1, 5)
        assert known.kv_capacity_tokens == 1024 * 16
        assert gateway.service._driver.scheduler._endpoints[known.endpoint.endpoint_id].kv_capacity == 1024 * 16
        await asked


async def test_an_engine_whose_health_lies_is_caught_and_its_requests_run_elsewhere(tmp_path):
    async with (
        fake_engine("--served-model-name", "demo-chat", "--hang") as liar,
        fake_engine("--served-model-name", "demo-chat") as honest,
        running_gateway(
            tmp_path, shaped(snapshot_for(("demo-chat", 100, [liar.port, honest.port]))), engine_stall_s=0.8
        ) as gateway,
    ):
        assert (await call(liar.port, "GET", "/health")).status == 200
        answers = await asyncio.gather(*[gateway.chat(max_tokens=2) for _ in range(8)])
        assert {answer.status for answer in answers} == {200}
        states = gateway.service._driver.scheduler.endpoint_states(time.monotonic())
        assert {state.is_stalled for state in states} == {True, False}
        records = await gateway.wait_for_records(8)
    assert max(record.attempts for record in records) == 2


async def test_a_busy_engine_is_left_alone_however_long_its_answers_take(tmp_path):
    async with (
        fake_engine("--served-model-name", "demo-chat", "--time-scale", "3") as engine,
        running_gateway(
            tmp_path, shaped(snapshot_for(("demo-chat", 100, [engine.port]))), engine_stall_s=0.8
        ) as gateway,
    ):
        answer = await gateway.chat(max_tokens=60, ignore_eos=True)
        [record] = await gateway.wait_for_records(1)
    assert (answer.status, record.attempts) == (200, 1)


async def test_a_request_waits_for_an_engine_that_loads_and_is_sent_when_it_is_warm(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        warm = snapshot_for(("demo-chat", 100, [engine.port]))
        loading = [
            msgspec.structs.replace(endpoint, warmth="loading", ready_at=time.time() + 600)
            for endpoint in warm.endpoints
        ]
        async with running_gateway(tmp_path, msgspec.structs.replace(warm, endpoints=loading)) as gateway:
            asked = asyncio.create_task(gateway.chat())
            await asyncio.sleep(0.3)
            assert not asked.done()
            assert (await call(engine.port, "GET", "/fake/requests")).json()["requests"] == []
            gateway.publish(msgspec.structs.replace(warm, generation=2))
            answer = await asyncio.wait_for(asked, 10)
    assert answer.status == 200


async def test_a_workflow_past_its_deadline_is_ended_wherever_its_calls_are(tmp_path):
    headers = {"X-Workflow-Id": "w", "X-Workflow-Deadline-Ms": "600"}
    async with (
        fake_engine(*SLOW) as engine,
        running_gateway(tmp_path, shaped(snapshot_for(("demo-chat", 100, [engine.port])))) as gateway,
    ):
        body = chat_body(max_tokens=1000, ignore_eos=True)
        running = await gateway.call("POST", CHAT, body, headers=headers)
        late = await gateway.call("POST", CHAT, body, headers=headers)
        await until(lambda: engine.engine.load == 0, CANCEL_WITHIN_S)
    assert (running.status, running.json()["error"]["code"]) == (400, "workflow_deadline")
    assert (late.status, late.json()["error"]["code"]) == (400, "workflow_deadline")

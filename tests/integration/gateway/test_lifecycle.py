"""Whatever dies in between, every request is answered once and leaves one right record."""

import asyncio
import json
import socket
import subprocess
import sys

import msgspec
import pytest

from tests.support.fake_engines import fake_engine, fake_engine_process, free_port, wait_for_port
from tests.support.gateways import authorised, chat_body, running_gateway, snapshot_for, without_limits
from tests.support.raw_http import call, request_bytes
from workers.contracts.spool import decode_lines

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
SLOW = ("--served-model-name", "demo-chat", "--time-scale", "2")


async def open_stream(port, body, *, events=3, headers=None):
    """A connection on which so many events of a stream have come."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request_bytes("POST", CHAT, body, authorised() | (headers or {})))
    for _ in range(events):
        await asyncio.wait_for(reader.readuntil(b"\n\n\r\n"), 10)
    return reader, writer


async def engine_ledger(engine, request_id):
    answer = await call(engine.port, "GET", "/fake/requests")
    return [entry for entry in answer.json()["requests"] if entry["request_id"].endswith(request_id)]


async def set_fault(engine, **faults):
    assert (await call(engine.port, "POST", "/fake/faults", faults)).status == 200


async def test_usage_and_cost_are_the_engines_to_the_token(tmp_path):
    async with (
        fake_engine("--served-model-name", "demo-chat") as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway,
    ):
        for is_stream in (False, True):
            await gateway.call("POST", CHAT, chat_body(stream=is_stream), headers={"X-Request-Id": f"r-{is_stream}"})
        records = gateway.records()
        for record in records:
            [entry] = await engine_ledger(engine, record.request_id)
            assert (record.input_tokens, record.output_tokens) == (entry["prompt_tokens"], entry["completion_tokens"])
            assert record.cost_pico_usd == (
                (record.input_tokens - record.cached_input_tokens) * 150_000
                + record.cached_input_tokens * 75_000
                + record.output_tokens * 600_000
            )
    assert [(record.is_stream, record.outcome, record.usage_source) for record in records] == [
        (False, "completed", "engine"),
        (True, "completed", "engine"),
    ]
    assert all(record.queue_ms is not None and record.ttft_ms is not None for record in records)


async def test_a_client_that_leaves_mid_stream_leaves_one_right_record_and_frees_the_engine(tmp_path):
    async with (
        fake_engine(*SLOW) as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway,
    ):
        body = chat_body(stream=True, max_tokens=1000, ignore_eos=True)
        _, writer = await open_stream(gateway.port, body, events=6, headers={"X-Request-Id": "left"})
        writer.transport.abort()
        [record] = await gateway.wait_for_records(1)
        await asyncio.sleep(0.5)
        [entry] = await engine_ledger(engine, "left")
    assert (record.outcome, record.usage_source, record.status) == ("client_left", "engine", 200)
    assert entry["outcome"] == "abort"
    assert record.input_tokens == entry["prompt_tokens"]
    assert 5 <= record.output_tokens == entry["completion_tokens"]


async def test_a_client_that_leaves_before_the_first_byte_is_recorded_with_an_estimate(tmp_path):
    async with (
        fake_engine(*SLOW) as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway,
    ):
        await gateway.chat()
        _, writer = await open_stream(gateway.port, chat_body(max_tokens=1000, ignore_eos=True), events=0)
        await asyncio.sleep(0.3)
        writer.transport.abort()
        record = (await gateway.wait_for_records(2))[1]
    assert (record.outcome, record.usage_source, record.status) == ("client_left", "estimated", 499)
    assert 0 < record.output_tokens < 1000


async def test_what_generates_nothing_teaches_no_pace_by_which_others_are_charged(tmp_path):
    """A list of a long text's tokens came in a millisecond, and who left was charged all that it had allowed."""
    async with (
        fake_engine(*SLOW) as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway,
    ):
        await gateway.chat()
        for _ in range(5):
            await gateway.call("POST", "/tokenize", {"model": "demo-chat", "prompt": "word " * 2000})
        body = chat_body(max_tokens=1000, ignore_eos=True)
        _, writer = await open_stream(gateway.port, body, events=0, headers={"X-Request-Id": "left"})
        await asyncio.sleep(0.3)
        writer.transport.abort()
        record = (await gateway.wait_for_records(7))[-1]
        await asyncio.sleep(0.5)
        [entry] = await engine_ledger(engine, "left")
    assert (record.outcome, record.usage_source) == ("client_left", "estimated")
    assert 0 < record.output_tokens <= 5 * entry["completion_tokens"] < 1000


async def test_a_client_that_leaves_the_queue_has_used_nothing(tmp_path):
    snapshot = snapshot_for(("demo-chat", 100, []))
    async with running_gateway(tmp_path, snapshot) as gateway:
        _, writer = await open_stream(gateway.port, chat_body(), events=0)
        await asyncio.sleep(0.1)
        writer.close()
        [record] = await gateway.wait_for_records(1)
    assert (record.outcome, record.usage_source) == ("client_left", "none")
    assert record.queue_ms is None
    assert record.cost_pico_usd == 0


async def test_an_engine_that_dies_in_a_stream_that_nobody_can_continue_ends_it_with_an_error_event(tmp_path):
    async with (
        fake_engine(*SLOW) as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway,
    ):
        await set_fault(engine, reset_after_tokens=5)
        answer = await gateway.chat(stream=True, max_tokens=100, ignore_eos=True, logprobs=True)
        [record] = await gateway.wait_for_records(1)
    *_, error, done = answer.events()
    assert (error["error"]["code"], done) == ("engine_died", "[DONE]")
    assert (record.outcome, record.error_code, record.usage_source) == ("failed", "engine_died", "engine")
    assert 5 <= record.output_tokens < 100


async def test_a_request_that_no_byte_was_sent_for_runs_again_elsewhere(tmp_path):
    dead = free_port()
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [dead, engine.port]))
        async with running_gateway(tmp_path, snapshot) as gateway:
            answers = await asyncio.gather(*[gateway.chat(max_tokens=2) for _ in range(10)])
            records = await gateway.wait_for_records(10)
    assert {answer.status for answer in answers} == {200}
    assert len(records) == 10
    assert max(record.attempts for record in records) == 2


async def test_connections_to_an_engine_are_kept(tmp_path):
    async with (
        fake_engine("--served-model-name", "demo-chat") as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port]))) as gateway,
    ):
        for is_stream in (False, True, False):
            await gateway.chat(stream=is_stream, max_tokens=2)
        [running] = gateway.service._driver.engines
        assert len(running.pool._idle) == 1


async def test_an_engine_that_restarts_breaks_no_request_on_a_kept_connection(tmp_path):
    port = free_port()
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [port]))) as gateway:
        for _ in range(3):
            with fake_engine_process(port, "--served-model-name", "demo-chat"):
                assert (await gateway.chat(max_tokens=2)).status == 200
        records = gateway.records()
    assert [record.attempts for record in records] == [1, 1, 1]


async def test_a_request_waits_for_an_engine_that_is_starting(tmp_path):
    port = free_port()
    async with running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [port]))) as gateway:
        waiting = asyncio.create_task(gateway.chat(max_tokens=2))
        await asyncio.sleep(0.3)
        with fake_engine_process(port, "--served-model-name", "demo-chat"):
            assert (await waiting).status == 200
        [record] = gateway.records()
    assert record.attempts > 1


async def test_an_engine_that_hangs_is_given_up_after_its_silence(tmp_path):
    async with (
        fake_engine("--served-model-name", "demo-chat") as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port])), engine_silence_s=0.5) as gateway,
    ):
        await set_fault(engine, is_hanging=True)
        whole, stream = await asyncio.gather(gateway.chat(), gateway.chat(stream=True))
        records = await gateway.wait_for_records(2)
    assert (whole.status, whole.json()["error"]["code"]) == (504, "engine_timed_out")
    assert b"engine_timed_out" in stream.body
    assert {record.outcome for record in records} == {"failed"}


async def test_an_engine_that_answers_500_is_heard_and_rested(tmp_path):
    async with (
        fake_engine("--served-model-name", "demo-chat") as bad,
        fake_engine("--served-model-name", "demo-chat") as good,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [bad.port, good.port]))) as gateway,
    ):
        await set_fault(bad, error_rate=1.0)
        statuses = [(await gateway.chat(max_tokens=1)).status for _ in range(10)]
    assert statuses.count(500) == 1


async def test_gold_is_served_before_batch_when_the_engine_is_full(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "1") as engine:
        snapshot = without_limits(snapshot_for(("demo-chat", 100, [engine.port])))
        narrow = [msgspec.structs.replace(snapshot.endpoints[0], max_running_requests=1)]
        async with running_gateway(tmp_path, msgspec.structs.replace(snapshot, endpoints=narrow)) as gateway:
            blocking = asyncio.create_task(gateway.chat(tenant="batch", max_tokens=2000, ignore_eos=True, stream=True))
            await asyncio.sleep(0.2)
            waiting = []
            for tenant in ["batch"] * 3 + ["standard"] * 4 + ["gold"] * 4:
                waiting.append(asyncio.create_task(gateway.chat(tenant=tenant, max_tokens=2)))
                while gateway.service._driver.scheduler.queued_total() < len(waiting):  # noqa: ASYNC110 - no event
                    await asyncio.sleep(0.005)
            blocking.cancel()
            await asyncio.gather(blocking, *waiting, return_exceptions=True)
            served = [record.service_class for record in gateway.records()]
    assert served == ["batch"] + ["gold"] * 4 + ["standard"] * 4 + ["batch"] * 3


async def test_a_full_queue_is_a_429_that_says_when_to_come_back(tmp_path):
    snapshot = snapshot_for(("demo-chat", 100, []))
    tenants = [msgspec.structs.replace(tenant, max_queued_requests=2) for tenant in snapshot.tenants]
    async with running_gateway(tmp_path, msgspec.structs.replace(snapshot, tenants=tenants)) as gateway:
        waiting = [asyncio.create_task(gateway.chat()) for _ in range(2)]
        await asyncio.sleep(0.1)
        answer = await gateway.chat()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        records = await gateway.wait_for_records(3)
    assert (answer.status, answer.json()["error"]["code"]) == (429, "queue_full")
    assert int(answer.header("retry-after")) >= 1
    assert sorted(record.outcome for record in records) == ["client_left", "client_left", "refused"]


async def test_a_slow_reader_holds_the_engine_back_and_not_the_gateways_memory(tmp_path):
    async with (
        fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.001") as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port])), stall_s=1.0) as gateway,
    ):
        body = chat_body(stream=True, max_tokens=2000, ignore_eos=True, n=4, logprobs=True, top_logprobs=20)
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", gateway.port))
            client.sendall(request_bytes("POST", CHAT, body, authorised()))
            [record] = await gateway.wait_for_records(1, timeout_s=30)
    assert record.outcome == "client_left"


async def test_a_stop_finishes_what_runs_and_refuses_what_waits(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "1") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        narrow = [msgspec.structs.replace(snapshot.endpoints[0], max_running_requests=1)]
        snapshot = msgspec.structs.replace(snapshot, endpoints=narrow)
        async with running_gateway(tmp_path, snapshot, grace_s=10) as gateway:
            running = asyncio.create_task(gateway.chat(stream=True, max_tokens=60, ignore_eos=True))
            await asyncio.sleep(0.2)
            waiting = asyncio.create_task(gateway.chat())
            await asyncio.sleep(0.1)
            gateway.stop.set()
            refused, finished = await asyncio.gather(waiting, running)
            records = gateway.records()
    assert (refused.status, refused.json()["error"]["code"]) == (503, "shutting_down")
    assert finished.body.endswith(b"data: [DONE]\n\n")
    assert b"error" not in finished.body
    assert sorted(record.outcome for record in records) == ["completed", "refused"]


async def test_a_stop_ends_streams_that_outlast_the_grace_with_an_error_event(tmp_path):
    async with (
        fake_engine(*SLOW) as engine,
        running_gateway(tmp_path, snapshot_for(("demo-chat", 100, [engine.port])), grace_s=0.2) as gateway,
    ):
        endless = asyncio.create_task(gateway.chat(stream=True, max_tokens=5000, ignore_eos=True))
        await asyncio.sleep(0.3)
        gateway.stop.set()
        answer = await endless
        await gateway.task
        [record] = gateway.records()
    *_, error, done = answer.events()
    assert (error["error"]["code"], done) == ("shutting_down", "[DONE]")
    assert record.error_code == "shutting_down"
    assert record.output_tokens > 0


def start(command):
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def test_alone_it_serves_from_the_example_generator(tmp_path):
    port, engine_port, admin_port = free_port(), free_port(), free_port()
    generator = [sys.executable, "-m", "workers.contracts.example", "--endpoint", f"http://127.0.0.1:{engine_port}"]
    made = subprocess.run([*generator, "--key", "gold=ty-mine"], capture_output=True, check=True, timeout=30)
    (tmp_path / "snapshot.json").write_bytes(made.stdout)
    command = [sys.executable, "-m", "workers.gateway", "--snapshot", str(tmp_path / "snapshot.json")]
    ports = ["--port", str(port), "--admin-port", str(admin_port), "--spool", str(tmp_path / "spool")]
    gateway = start([*command, *ports])
    try:
        with fake_engine_process(engine_port, "--served-model-name", "demo-chat"):
            wait_for_port(port, gateway)
            answer = asyncio.run(call(port, "POST", CHAT, chat_body(), {"Authorization": "Bearer ty-mine"}))
            assert answer.status == 200
            ready = asyncio.run(call(admin_port, "GET", "/readyz"))
            metrics = asyncio.run(call(admin_port, "GET", "/metrics")).body.decode()
    finally:
        gateway.terminate()
        assert gateway.wait(10) == 0
    assert ready.json() == {"ready": True, "reasons": [], "warnings": []}
    assert "# TYPE tokenyard_gateway_requests_total counter" in metrics
    [record] = decode_lines(next((tmp_path / "spool").glob("*.jsonl")).read_bytes(), 10)[0]
    assert json.loads(answer.body)["usage"]["completion_tokens"] == record.output_tokens


async def status_becomes(gateway, status):
    for _ in range(100):
        answer = await gateway.call("POST", CHAT, chat_body(max_tokens=1))
        if answer.status == status:
            return answer
        await asyncio.sleep(0.1)
    raise AssertionError(f"{answer.status} instead of {status}: {answer.body}")


async def test_of_a_node_that_was_removed_streams_end_and_nothing_new_is_taken_until_it_joins_again(tmp_path):
    mark = tmp_path / "removed"
    async with (
        fake_engine(*SLOW) as engine,
        running_gateway(
            tmp_path, snapshot_for(("demo-chat", 100, [engine.port])), report_file=tmp_path / "gateway.json"
        ) as gateway,
    ):
        reader, writer = await open_stream(gateway.port, chat_body(stream=True, max_tokens=60, ignore_eos=True))
        mark.touch()
        refused = await status_becomes(gateway, 503)
        assert refused.json()["error"]["code"] == "node_removed"
        assert gateway.service.report.is_stopping
        assert b"[DONE]" in await asyncio.wait_for(reader.readuntil(b"[DONE]"), 20)
        writer.close()
        mark.unlink()
        await status_becomes(gateway, 200)
        assert not gateway.service.report.is_stopping

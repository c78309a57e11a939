"""What an operator can see of a gateway process: metrics on the admin port, and the access log."""

import asyncio
import json
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec
import pytest

from tests.support.fake_engines import fake_engine, free_port, wait_for_port
from tests.support.gateways import authorised, chat_body, message_body, running_gateway, snapshot_for
from tests.support.raw_http import call

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"


@dataclass
class GatewayProcess:
    port: int
    admin_port: int

    async def metrics(self) -> str:
        return (await call(self.admin_port, "GET", "/metrics")).body.decode()


@contextmanager
def gateway_process(directory, engine_port, *options):
    (directory / "snapshot.json").write_bytes(msgspec.json.encode(snapshot_for(("demo-chat", 100, [engine_port]))))
    port, admin_port = free_port(), free_port()
    arguments = ["--snapshot", directory / "snapshot.json", "--spool", directory / "spool", *options]
    command = [sys.executable, "-m", "workers.gateway", "--port", port, "--admin-port", admin_port, *arguments]
    with (directory / "stdout").open("wb") as stdout:
        process = subprocess.Popen(list(map(str, command)), stdout=stdout, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, process)
        yield GatewayProcess(port, admin_port)
    finally:
        process.terminate()
        process.wait(10)


async def test_metrics_and_the_access_log_tell_of_every_request(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        with gateway_process(tmp_path, engine.port, "--access-log") as gateway:
            headers = authorised() | {"X-Request-Id": "mine"}
            await call(gateway.port, "POST", CHAT, chat_body("a secret question"), headers)
            await call(gateway.port, "POST", "/v1/messages", message_body(stream=True), authorised("batch"))
            await call(gateway.port, "POST", CHAT, chat_body(model="nope"), authorised())
            await call(gateway.port, "POST", CHAT, chat_body(), {"Authorization": "Bearer wrong"})
            text = await gateway.metrics()
    assert (
        'requests_total{model="demo-chat",service_class="gold",path="/v1/chat/completions",outcome="completed"'
        ',status="2xx"} 1\n' in text
    )
    assert 'gen_ai_server_time_to_first_token_seconds_count{gen_ai_operation_name="chat"' in text
    assert 'vllm:generation_tokens_total{model_name="demo-chat"} 16\n' in text
    assert 'unrecorded_errors_total{code="invalid_api_key"} 1\n' in text
    written = (tmp_path / "stdout").read_text()
    entries = [json.loads(line) for line in written.splitlines()]
    assert [(entry["path"], entry["status"], entry["tenant_id"]) for entry in entries] == [
        (CHAT, 200, "gold"),
        ("/v1/messages", 200, "batch"),
        (CHAT, 404, "gold"),
    ]
    assert entries[0]["request_id"] == "mine"
    assert "secret" not in written
    assert authorised()["Authorization"].partition(" ")[2] not in written + text


async def test_without_the_option_nothing_is_written(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        with gateway_process(tmp_path, engine.port) as gateway:
            await call(gateway.port, "POST", CHAT, chat_body(), authorised())
    assert (tmp_path / "stdout").read_text() == ""


async def test_what_runs_and_what_waits_is_told_by_model(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "2") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        narrow = [msgspec.structs.replace(snapshot.endpoints[0], max_running_requests=1)]
        async with running_gateway(tmp_path, msgspec.structs.replace(snapshot, endpoints=narrow)) as gateway:
            asked = [asyncio.create_task(gateway.chat(max_tokens=2000, ignore_eos=True)) for _ in range(3)]
            async with asyncio.timeout(10):
                while gateway.service.metrics.in_flight != {"demo-chat": (1, 2)}:  # noqa: ASYNC110 - has no event
                    await asyncio.sleep(0.05)
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)


async def test_the_admin_port_tells_why_a_request_went_where_it_went(tmp_path):
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        with gateway_process(tmp_path, engine.port) as gateway:
            headers = authorised() | {"X-Request-Id": "a b/c", "X-Workflow-Id": "nightly"}
            await call(gateway.port, "POST", CHAT, chat_body(stream=True), headers)
            found = (await call(gateway.admin_port, "GET", "/decisions/a%20b%2Fc")).json()
            unknown = await call(gateway.admin_port, "GET", "/decisions/nobody")
            report = (await call(gateway.admin_port, "GET", "/report")).json()
    assert [step["what"] for step in found["steps"]] == ["arrived", "sent", "first_token", "completed"]
    assert (found["tenant_id"], found["workflow_id"], found["is_over"]) == ("gold", "nightly", True)
    assert found["choices"][0]["endpoint_id"] == found["choices"][0]["considered"][0]["endpoint_id"] == "v1-0"
    assert unknown.status == 404
    assert [estimate["endpoint_id"] for estimate in report["scheduler"]["endpoints"]] == ["v1-0"]

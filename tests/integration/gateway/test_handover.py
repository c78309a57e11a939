"""A new gateway process takes the port over from the old one, and no client notices."""

import asyncio
import json
import signal
import socket
import subprocess
from threading import Timer

import pytest

from tests.support.fake_engines import fake_engine, free_port
from tests.support.gateway_processes import gateway_command, gateway_process, spooled
from tests.support.gateways import authorised, chat_body, snapshot_for
from tests.support.raw_http import call, parse_response, request_bytes
from workers.gateway.http import handover

pytestmark = pytest.mark.integration

CHAT = "/v1/chat/completions"
SLOW = ("--served-model-name", "demo-chat", "--time-scale", "2")


async def boot_id(admin_port):
    return (await call(admin_port, "GET", "/healthz")).json()["boot_id"]


async def wait_for_another(admin_port, known, timeout_s=20):
    for _ in range(timeout_s * 20):
        found = await boot_id(admin_port)
        if found != known:
            return found
        await asyncio.sleep(0.05)
    raise TimeoutError("nobody took over")


async def wait_for_exit(process, timeout_s=20):
    for _ in range(timeout_s * 20):
        if process.poll() is not None:
            return process.returncode
        await asyncio.sleep(0.05)
    raise TimeoutError("the old gateway does not end")


async def ask_all_the_time(port, statuses, is_over):
    """On a new connection each time, so that each could be refused."""
    while not is_over.is_set():
        statuses.append((await call(port, "POST", CHAT, chat_body(max_tokens=2), authorised())).status)


async def ask_on_one_connection(port, statuses, is_over):
    """As long as it is kept; then on another."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while not is_over.is_set():
        body = chat_body(max_tokens=2)
        writer.write(request_bytes("POST", CHAT, body, authorised() | {"Connection": "keep-alive"}))
        head = await reader.readuntil(b"\r\n\r\n")
        answer = parse_response(head)
        await reader.readexactly(int(answer.header("content-length")))
        statuses.append(answer.status)
        if answer.header("connection") == "close":
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.close()


async def test_under_load_no_connection_is_refused_and_no_stream_is_broken(tmp_path):
    port, admin_port = free_port(), free_port()
    async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.5") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        with gateway_process(tmp_path, snapshot, port, admin_port=admin_port) as old:
            known = await boot_id(admin_port)
            statuses, is_over = [], asyncio.Event()
            clients = [asyncio.create_task(ask_all_the_time(port, statuses, is_over)) for _ in range(4)]
            clients += [asyncio.create_task(ask_on_one_connection(port, statuses, is_over)) for _ in range(4)]
            body = chat_body(stream=True, max_tokens=600, ignore_eos=True)
            stream = asyncio.create_task(call(port, "POST", CHAT, body, authorised()))
            await asyncio.sleep(0.3)
            with gateway_process(tmp_path, snapshot, port, "--take-over", admin_port=admin_port) as new:
                other = await wait_for_another(admin_port, known)
                streamed = await stream
                assert await wait_for_exit(old) == 0
                answered_by_old = len(statuses)
                await asyncio.sleep(0.3)
                is_over.set()
                await asyncio.gather(*clients)
                new.send_signal(signal.SIGTERM)
                assert await wait_for_exit(new) == 0
    assert set(statuses) == {200}
    assert len(statuses) > answered_by_old > 20
    assert streamed.body.endswith(b"data: [DONE]\n\n")
    assert b"error" not in streamed.body
    records = spooled(tmp_path)
    assert len(records) == len(statuses) + 1
    assert {record.boot_id for record in records} == {known, other}
    assert {record.outcome for record in records} == {"completed"}


async def test_a_successor_that_dies_before_it_listens_has_taken_nothing_away(tmp_path):
    port, admin_port = free_port(), free_port()
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        with gateway_process(tmp_path, snapshot, port, admin_port=admin_port) as old:
            path = tmp_path / "spool" / "gateway.sock"
            taken = await _taken_from(path)
            assert taken.serve.getsockname()[1] == port
            for each in (taken.serve, taken.admin, taken.predecessor):
                each.close()
            assert (await call(port, "POST", CHAT, chat_body(max_tokens=2), authorised())).status == 200
            with gateway_process(tmp_path, snapshot, port, "--take-over", admin_port=admin_port):
                assert await wait_for_exit(old) == 0
                assert (await call(port, "POST", CHAT, chat_body(max_tokens=2), authorised())).status == 200


@pytest.mark.parametrize("processes", ["1", "2"])
async def test_a_successor_that_can_read_no_snapshot_leaves_the_one_that_serves_alone(tmp_path, processes):
    port, admin_port = free_port(), free_port()
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        with gateway_process(tmp_path, snapshot, port, admin_port=admin_port) as old:
            known = await boot_id(admin_port)
            options = ("--take-over", "--processes", processes)
            command = gateway_command(tmp_path, snapshot, port, admin_port, *options)
            (tmp_path / "snapshot.json").write_text("{broken")
            ended = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)
            assert (ended.returncode, "is left alone" in ended.stderr) == (1, True)
            assert (old.poll(), await boot_id(admin_port)) == (None, known)
            assert (await call(port, "POST", CHAT, chat_body(max_tokens=2), authorised())).status == 200
            with gateway_process(tmp_path, snapshot, port, "--take-over", admin_port=admin_port):
                assert await wait_for_another(admin_port, known) != known


async def test_where_nobody_serves_a_successor_listens_by_itself(tmp_path):
    port = free_port()
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        with gateway_process(tmp_path, snapshot, port, "--take-over") as first:
            first.kill()  # its socket file stays
            first.wait(10)
        with gateway_process(tmp_path, snapshot, port, "--take-over"):
            assert (await call(port, "POST", CHAT, chat_body(max_tokens=2), authorised())).status == 200


async def test_a_successor_waits_for_who_holds_the_port_and_cannot_hand_it_over_yet(tmp_path):
    holder = handover.listen("127.0.0.1", 0)
    port = holder.getsockname()[1]
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        Timer(2.0, holder.close).start()
        with gateway_process(tmp_path, snapshot, port, "--take-over"):
            assert holder.fileno() == -1
            assert (await call(port, "POST", CHAT, chat_body(max_tokens=2), authorised())).status == 200


async def test_the_handover_socket_is_for_this_user_alone(tmp_path):
    port = free_port()
    async with fake_engine("--served-model-name", "demo-chat") as engine:
        with gateway_process(tmp_path, snapshot_for(("demo-chat", 100, [engine.port])), port):
            path = tmp_path / "spool" / "gateway.sock"
            assert path.stat().st_mode & 0o777 == 0o600
            with socket.socket(socket.AF_UNIX) as stranger:
                stranger.settimeout(5)
                stranger.connect(str(path))
                stranger.sendall(b"something else\n")
                assert stranger.recv(100) == b""


async def test_sigterm_ends_a_stream_that_outlasts_the_grace_and_says_meanwhile_that_it_is_not_ready(tmp_path):
    port, admin_port = free_port(), free_port()
    async with fake_engine(*SLOW) as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        with gateway_process(tmp_path, snapshot, port, "--grace-s", "1.5", admin_port=admin_port) as process:
            body = chat_body(stream=True, max_tokens=5000, ignore_eos=True)
            stream = asyncio.create_task(call(port, "POST", CHAT, body, authorised()))
            await asyncio.sleep(0.5)
            process.terminate()
            await asyncio.sleep(0.3)
            ready = await call(admin_port, "GET", "/readyz")
            alive = await call(admin_port, "GET", "/healthz")
            streamed = await stream
            assert await wait_for_exit(process) == 0
    assert (ready.status, alive.status) == (503, 200)
    assert "it is stopping" in json.loads(ready.body)["reasons"]
    assert streamed.events()[-2]["error"]["code"] == "shutting_down"
    [record] = spooled(tmp_path)
    assert (record.error_code, record.outcome, record.usage_source) == ("shutting_down", "failed", "engine")
    assert list((tmp_path / "spool").glob("*.journal")) == []


async def _taken_from(path):
    """It is offered a moment after the port is open."""
    async with asyncio.timeout(10):
        while (taken := await asyncio.to_thread(handover.take_over, path)) is None:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)
    return taken

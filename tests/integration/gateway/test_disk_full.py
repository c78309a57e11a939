"""A disk that is full: nothing is served that could not be recorded, and all that was served is recorded."""

import asyncio
import os
import subprocess
from contextlib import contextmanager

import pytest

from tests.support.fake_engines import fake_engine, free_port
from tests.support.gateway_processes import gateway_process, spooled
from tests.support.gateways import authorised, chat_body, snapshot_for
from tests.support.raw_http import call

pytestmark = [pytest.mark.integration, pytest.mark.skipif(os.geteuid() != 0, reason="a small disk takes a mount")]

CHAT = "/v1/chat/completions"
FILLER = "filler"


@contextmanager
def small_disk(path, size_kib):
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_kib}k", "tmpfs", path]
    if subprocess.run(mount, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)  # noqa: S607 - any umount


def fill(directory):
    """All that is left of it."""
    with (directory / FILLER).open("wb", buffering=0) as file:
        for size_bytes in (65536, 4096, 256, 1):
            try:
                while file.write(b"x" * size_bytes):
                    pass
            except OSError:
                continue


async def ask_until(port, status, *, at_most=400):
    """The statuses of requests one after the other, until one has `status`."""
    found = []
    for _ in range(at_most):
        answer = await call(port, "POST", CHAT, chat_body(max_tokens=2), authorised())
        found.append(answer.status)
        if answer.status == status:
            return found, answer
        await asyncio.sleep(0.01)
    raise AssertionError(f"no {status} among {sorted(set(found))}")


async def until_ready(admin_port):
    async with asyncio.timeout(10):  # its report is of the last second
        while (await call(admin_port, "GET", "/readyz")).status != 200:  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.05)


async def test_a_full_disk_stops_admission_before_a_record_is_lost_and_room_starts_it_again(tmp_path):
    disk = tmp_path / "disk"
    with small_disk(disk, 8192):
        async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.01") as engine:
            port, admin_port = free_port(), free_port()
            snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
            with gateway_process(disk, snapshot, port, admin_port=admin_port):
                before, _ = await ask_until(port, 200)
                fill(disk)
                while_full, refusal = await ask_until(port, 503)
                assert set(while_full) == {200, 503}
                assert refusal.json()["error"]["code"] == "spool_unavailable"
                ready = await call(admin_port, "GET", "/readyz")
                assert ready.status == 503
                assert "usage" in ready.body.decode()
                served = (before + while_full).count(200)
                (disk / FILLER).unlink()
                again, _ = await ask_until(port, 200)
                served += again.count(200)
                assert (await call(admin_port, "GET", "/readyz")).status == 200
                metrics = (await call(admin_port, "GET", "/metrics")).body.decode()
            records = spooled(disk)
    refused = while_full.count(503) + again.count(503)
    assert f'unrecorded_errors_total{{code="spool_unavailable"}} {refused}' in metrics
    assert {record.status for record in records} == {200}
    assert [record.status for record in records].count(200) == served
    assert len({record.record_id for record in records}) == len(records)


async def test_a_gateway_that_starts_on_a_full_disk_refuses_until_there_is_room(tmp_path):
    disk = tmp_path / "disk"
    with small_disk(disk, 4096):
        (disk / "spool").mkdir()
        async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "0.01") as engine:
            port, admin_port = free_port(), free_port()
            snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
            with gateway_process(disk, snapshot, port, admin_port=admin_port, fill=fill):
                _, refusal = await ask_until(port, 503)
                assert refusal.json()["error"]["code"] == "spool_unavailable"
                ready = await call(admin_port, "GET", "/readyz")
                assert (ready.status, "usage" in ready.body.decode()) == (503, True)
                (disk / FILLER).unlink()
                again, _ = await ask_until(port, 200)
                await until_ready(admin_port)
            records = spooled(disk)
    assert [record.status for record in records].count(200) == again.count(200)


async def test_streams_that_run_when_the_disk_fills_up_are_recorded_once_there_is_room(tmp_path):
    disk = tmp_path / "disk"
    body = chat_body(max_tokens=60, ignore_eos=True, stream=True)
    with small_disk(disk, 8192):
        async with fake_engine("--served-model-name", "demo-chat", "--time-scale", "1") as engine:
            port = free_port()
            snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
            with gateway_process(disk, snapshot, port):
                asked = [asyncio.create_task(call(port, "POST", CHAT, body, authorised())) for _ in range(20)]
                await asyncio.sleep(0.3)
                fill(disk)
                answers = await asyncio.gather(*asked)
                (disk / FILLER).unlink()
                await ask_until(port, 200)
                for _ in range(200):
                    if len(spooled(disk)) >= 21:
                        break
                    await asyncio.sleep(0.05)
            records = spooled(disk)
    assert {answer.status for answer in answers} == {200}
    assert [record.output_tokens for record in records].count(60) == 20

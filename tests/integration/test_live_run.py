"""A live run comes to an end, whatever the gateway does."""

import asyncio

import msgspec
import pytest

from benchmarks.live_client import Player
from benchmarks.live_course import Course
from workers.simulator.job import Job

pytestmark = pytest.mark.integration


async def _answers(ledger, reader, writer):
    """An engine's ledger; to anything else, nothing."""
    head = await reader.readuntil(b"\r\n\r\n")
    if head.startswith(b"GET"):
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + msgspec.json.encode({"requests": ledger}))
    else:
        await reader.read()
    writer.close()
    await writer.wait_closed()


async def test_a_run_is_stopped_in_time_though_nothing_answers():
    ledger = [{"request_id": "cmpl-job-1", "cached_tokens": 0, "completion_tokens": 0}]
    server = await asyncio.start_server(lambda *streams: _answers(ledger, *streams), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    player = Player(port, "m", [port], 1.0, Course(2, 1.0), unit_tokens=16)
    asked, to_come = Job(1, 0.0, 4, 10), Job(2, 1000.0, 4, 10)
    ended_at = await player.play([asked, to_come], [], within_s=0.2)
    assert 0.2 <= ended_at < 1000.0
    assert (asked.finished_at, asked.endpoint, to_come.endpoint) == (None, f"e{port}", "")
    server.close()

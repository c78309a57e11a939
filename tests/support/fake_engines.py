"""Fake engines for tests: inside the test's loop, or as a process of their own."""

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from tests.support.closing import stop_accepting
from workers.engines.fake.options import build_parser, engine_options, initial_faults
from workers.engines.fake.server import FakeServer

FAST = ("--time-scale", "0.05")


@asynccontextmanager
async def fake_engine(*arguments: str, exits: list[int] | None = None) -> AsyncIterator[FakeServer]:
    """Serves in the running loop, on a free port: `server.port`. Where it would end the process it notes that."""
    parsed = build_parser().parse_args([*FAST, *arguments])
    server = FakeServer(engine_options(parsed), "127.0.0.1", 0, die=([] if exits is None else exits).append)
    server.engine.set_faults(initial_faults(parsed))
    await server.open()
    try:
        yield server
    finally:
        await stop_accepting(server._server)
        await server.close()
        # Connections are closed by callbacks of the loop.
        await asyncio.sleep(0)


@contextmanager
def fake_engine_process(port: int, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "workers.engines.fake", "--port", str(port), *FAST, *arguments]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, process)
        yield process
    finally:
        process.kill()
        process.wait(timeout=10)


def wait_for_port(port: int, process: subprocess.Popen[bytes], timeout_s: float = 20) -> None:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

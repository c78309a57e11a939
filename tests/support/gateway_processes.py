"""Gateways as processes of their own, which can be killed."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tests.support.fake_engines import free_port, wait_for_port
from workers.contracts.layout import HANDOVER_SOCKET
from workers.contracts.snapshot import Snapshot
from workers.contracts.spool import decode_lines, list_segments
from workers.contracts.usage import UsageRecord

Fill = Callable[[Path], None]


def gateway_command(directory: Path, snapshot: Snapshot, port: int, admin_port: int, *options: str) -> list[str]:
    path = directory / "snapshot.json"
    path.write_bytes(msgspec.json.encode(snapshot))
    ports = ["--port", str(port), "--admin-port", str(admin_port)]
    return [
        sys.executable,
        "-m",
        "workers.gateway",
        "--snapshot",
        str(path),
        *ports,
        "--spool",
        str(directory / "spool"),
        *options,
    ]


def _leave(directory: Path) -> None:
    del directory


@contextmanager
def gateway_process(
    directory: Path, snapshot: Snapshot, port: int, *options: str, admin_port: int | None = None, fill: Fill = _leave
) -> Iterator[subprocess.Popen[bytes]]:
    """Ends with the block, by force if it must. `fill` is done to the directory before it starts."""
    command = gateway_command(directory, snapshot, port, admin_port or free_port(), *options)
    fill(directory)
    if "--take-over" not in options:
        (directory / "spool" / HANDOVER_SOCKET).unlink(missing_ok=True)  # of one that was killed
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, process)
        wait_for_file(directory / "spool" / HANDOVER_SOCKET, process)
        yield process
    finally:
        process.kill()
        process.wait(10)


def wait_for_file(path: Path, process: subprocess.Popen[bytes], timeout_s: float = 20) -> None:
    """It serves by then: the socket comes last."""
    deadline = time.monotonic() + timeout_s
    while not path.exists():
        assert process.poll() is None, "the gateway has ended"
        assert time.monotonic() < deadline, f"there is no {path.name}"
        time.sleep(0.01)


def spooled(directory: Path) -> list[UsageRecord]:
    return [
        record
        for segment in list_segments(directory / "spool")
        for record in decode_lines(segment.read_bytes(), 1_000_000)[0]
    ]

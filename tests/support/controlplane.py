"""Real processes of the control plane on the test database: web behind a socket of ours, and a Celery worker."""

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from websockets.sync.client import ClientConnection, connect

from workers.contracts import link

_ROOT = Path(__file__).resolve().parents[2]
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 10
_RECEIVE_TIMEOUT_S = 15.0


@contextmanager
def running_web(environment: dict[str, str]) -> Iterator[str]:
    """Yields host:port. The listening socket is ours, so there is no port to race for."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        command = ["-m", "uvicorn", "controlplane.asgi:application", "--fd", str(listener.fileno()), "--no-access-log"]
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with _running(command, environment, pass_fds=[listener.fileno()]) as process:
            _wait_until_up(f"http://{address}/healthz", process)
            yield address


@contextmanager
def running_worker(environment: dict[str, str]) -> Iterator[None]:
    command = ["-m", "celery", "-A", "controlplane", "worker", "-Q", "controller", "--pool", "threads"]
    command += ["--concurrency", "2", "--without-gossip", "--without-mingle", "-n", "test@localhost"]
    with _running(command, environment):
        yield


@contextmanager
def _running(command: list[str], environment: dict[str, str], **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, *command], cwd=_ROOT, env={**os.environ, **environment}, stderr=subprocess.DEVNULL, **options
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_up(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError(f"{url} did not answer")


class Agent:
    """The other end of the link, as an agent speaks it."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, frame: msgspec.Struct) -> None:
        self.socket.send(msgspec.json.encode(frame).decode())

    def receive(self, kind: type[Any]) -> Any:
        """The next frame of that kind; others are passed over. Raises ConnectionClosed or TimeoutError."""
        while True:
            frame = link.decode_to_agent(self.socket.recv(timeout=_RECEIVE_TIMEOUT_S))
            if isinstance(frame, kind):
                return frame


@contextmanager
def connected_agent(address: str, token: str) -> Iterator[Agent]:
    header = {"Authorization": f"Bearer {token}"}
    with connect(f"ws://{address}/ws/agent/", additional_headers=header, compression=None) as connection:
        yield Agent(connection)

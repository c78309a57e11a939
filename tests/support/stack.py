"""The whole local stack for a test: its own data and ports, ended with pytest however that ends."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deploy.local import state
from deploy.local.layout import Layout
from tests.support.services import die_with_parent

ROOT = Path(__file__).resolve().parents[2]
_READY_TIMEOUT_S = 110
_STOP_TIMEOUT_S = 20
_POLL_S = 0.1
_PORT_NAMES = ("TOKENYARD_WEB_PORT", "TOKENYARD_GATEWAY_PORT", "TOKENYARD_GATEWAY_ADMIN_PORT")
_ENGINE_PORTS = 8


@dataclass(frozen=True)
class Stack:
    var: Path
    environment: dict[str, str]

    @property
    def layout(self) -> Layout:
        return Layout(self.var)

    @property
    def state(self) -> state.StackState:
        found = state.read(self.layout.state)
        assert found is not None, "the stack has written no state"
        return found

    @property
    def demo(self) -> dict[str, Any]:
        return json.loads(self.layout.demo.read_text())

    def command(self, *arguments: str, timeout_s: float = _READY_TIMEOUT_S) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "deploy.local", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )

    @contextmanager
    def up(self) -> Iterator[subprocess.Popen[str]]:
        """In the foreground, from before it is ready; stopped at the end with Ctrl-C's signal if it still runs."""
        with (self.var / "terminal").open("a") as terminal:
            supervisor = subprocess.Popen(
                [sys.executable, "-m", "deploy.local", "up"],
                cwd=ROOT,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=terminal,
                stderr=terminal,
                text=True,
                preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 - started before any thread of ours
            )
        try:
            yield supervisor
        finally:
            supervisor.send_signal(signal.SIGINT)
            supervisor.wait(_STOP_TIMEOUT_S)

    def wait_until_ready(self, supervisor: subprocess.Popen[str], *, timeout_s: float = _READY_TIMEOUT_S) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._is_ready(supervisor.pid):
            assert supervisor.poll() is None, self.terminal()
            assert time.monotonic() < deadline, self.terminal()
            time.sleep(_POLL_S)

    def terminal(self) -> str:
        return (self.var / "terminal").read_text()

    def _is_ready(self, supervisor_pid: int) -> bool:
        found = state.read(self.layout.state)
        return found is not None and found.phase == "ready" and found.supervisor_pid == supervisor_pid


@contextmanager
def make_stack(*, engine: str = "fake") -> Iterator[Stack]:
    var = Path(tempfile.mkdtemp(prefix="tokenyard-stack-"))
    stack = Stack(var, os.environ | {"TOKENYARD_VAR": str(var), "ENGINE": engine} | free_ports())
    for name in ("DJANGO_SETTINGS_MODULE", "TOKENYARD_DATABASE_URL", "TOKENYARD_VALKEY_URL", "TOKENYARD_BROKER_URL"):
        stack.environment.pop(name, None)
    try:
        yield stack
    finally:
        stack.command("reset", "--yes", timeout_s=60)
        shutil.rmtree(var, ignore_errors=True)


def free_ports() -> dict[str, str]:
    """Ports that are free now: one each, and a run of them for engines."""
    with ExitStack() as held:
        sockets = [held.enter_context(_bound(0)) for _ in _PORT_NAMES]
        ports = {name: str(one.getsockname()[1]) for name, one in zip(_PORT_NAMES, sockets, strict=True)}
        return ports | {"TOKENYARD_ENGINE_PORT_BASE": str(_free_run())}


def _free_run() -> int:
    for base in range(23_000 + os.getpid() % 100 * _ENGINE_PORTS, 32_000, _ENGINE_PORTS):
        try:
            with ExitStack() as held:
                for port in range(base, base + _ENGINE_PORTS):
                    held.enter_context(_bound(port))
        except OSError:
            continue
        return base
    raise RuntimeError("no run of free ports")


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    try:
        bound.bind(("127.0.0.1", port))
    except OSError:
        bound.close()
        raise
    return bound

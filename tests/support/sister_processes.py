"""Gateways of several processes, in view from outside: who is whose, and what each has open."""

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from tests.support.fake_engines import free_port, wait_for_port
from tests.support.gateway_processes import gateway_command, wait_for_file
from tests.support.gateways import snapshot_for
from tests.support.raw_http import call
from workers.contracts.layout import HANDOVER_SOCKET
from workers.contracts.snapshot import Route, RouteTarget, Snapshot

MODELS = ("model-a", "model-b")


def two_models(*ports: Sequence[int], **changes: Any) -> Snapshot:
    """A route for each model of MODELS, which its engines at these ports answer; each is a deployment of its own."""
    names = MODELS[: len(ports)]
    built = snapshot_for(*((name, 100, each) for name, each in zip(names, ports, strict=True)))
    routes = [
        Route(public_name=name, targets=[RouteTarget(version_id=version.version_id, weight=100)])
        for name, version in zip(names, built.versions, strict=True)
    ]
    versions = [
        msgspec.structs.replace(one, deployment_id=f"deployment-of-{one.served_name}") for one in built.versions
    ]
    return msgspec.structs.replace(built, routes=routes, versions=versions, **changes)


@dataclass
class SisterProcesses:
    parent: subprocess.Popen[bytes]
    port: int
    admin_port: int

    def pids(self) -> dict[int, int]:
        """Of the processes, by number."""
        found = {}
        for pid in Path(f"/proc/{self.parent.pid}/task/{self.parent.pid}/children").read_text().split():
            command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if b"--member" in command:
                found[int(command[command.index(b"--member") + 1].split(b",")[0])] = int(pid)
        return found

    def kill(self, number: int) -> None:
        os.kill(self.pids()[number], signal.SIGKILL)

    async def metrics(self) -> dict[str, float]:
        lines = (await call(self.admin_port, "GET", "/metrics")).body.decode().split("\n")
        samples = [line.rpartition(" ") for line in lines if line and not line.startswith("#")]
        return {name: float(value) for name, _, value in samples}

    async def passed(self) -> float:
        return (await self.metrics())['tokenyard_gateway_passed_connections_total{outcome="passed"}']


@contextmanager
def sister_processes(
    directory: Path, snapshot: Snapshot, *options: str, processes: int = 2, port: int = 0, admin_port: int = 0
) -> Iterator[SisterProcesses]:
    """Serve when the block begins, and are ended with it, by force."""
    port, admin_port = port or free_port(), admin_port or free_port()
    command = gateway_command(directory, snapshot, port, admin_port, "--processes", str(processes), *options)
    socket = directory / "spool" / HANDOVER_SOCKET
    if "--take-over" not in options:
        socket.unlink(missing_ok=True)
    parent = subprocess.Popen(command, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        wait_for_port(port, parent)
        wait_for_file(socket, parent, timeout_s=30)
        yield SisterProcesses(parent, port, admin_port)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(parent.pid, signal.SIGKILL)
        parent.wait(10)

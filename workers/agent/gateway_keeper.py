"""Keeps this node's gateway running, where the agent was told to: a process of its own that serves on without it.

An agent of newer code that finds one of older code running replaces it by another, to which that one hands its sockets
(docs/adr/0023).

gateway.pid   JSON: which process it is, of which code, and whom it replaced      logs/gateway.log
"""

import asyncio
import logging
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec import Struct

from workers.agent.engines.identity import ProcessIdentity, identify, is_running, kill_group, send_signal
from workers.contracts.layout import write_whole

log = logging.getLogger(__name__)

PID_FILE = "gateway.pid"
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 30.0
# It reports once a second, and begins with reading what its predecessor left.
_MAY_BE_SILENT_S = 30.0
# More between two turns is a pause of this agent, or of the machine: the gateway could not report, or not be heard.
_LONGEST_GAP_S = 3.0
_STABLE_AFTER_S = 60.0
_STOP_GRACE_S = 10.0
# Of a node that was removed: its streams end as they would have.
REMOVED_GRACE_S = 60.0
# What is the agent's own.
_SECRETS = ("TOKENYARD_AGENT_TOKEN", "TOKENYARD_BROKER_URL")


class GatewayPlace(Struct, frozen=True, kw_only=True):
    """Where it listens: clients and other nodes come to `port`, whoever measures it to `admin_port`."""

    host: str
    port: int
    admin_port: int


class _Kept(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The predecessor ends by itself once it has finished what it had."""

    pid: int
    start_ticks: int
    release: str = ""
    predecessor: ProcessIdentity | None = None

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.start_ticks)


class _Attempts(Struct):
    """In seconds of the machine's clock; `started_at` None before the first."""

    wait_s: float = 0.0
    started_at: float | None = None
    heard_at: float | None = None


class GatewayKeeper:
    """`has_reported` says whether its report is fresh, `release` of which code we are. `turn` is for once a second."""

    def __init__(
        self,
        directory: Path,
        node_id: str,
        place: GatewayPlace,
        environ: Mapping[str, str],
        *,
        has_reported: Callable[[], bool],
        release: str,
    ) -> None:
        self._directory = directory
        self._command = [sys.executable, "-m", "workers.gateway", "--node-dir", str(directory), "--node-id", node_id]
        self._command += ["--host", place.host, "--port", str(place.port), "--admin-port", str(place.admin_port)]
        self._command += ["--take-over", "--grace-s", str(REMOVED_GRACE_S - _STOP_GRACE_S)]
        self._environ = {name: value for name, value in environ.items() if name not in _SECRETS}
        self._has_reported = has_reported
        self._release = release
        self._attempts = _Attempts()
        self._child: subprocess.Popen[bytes] | None = None
        self._turned_at: float | None = None

    def turn(self, now: float) -> None:
        """Starts it where it does not run, each time later; ends it where it runs and says nothing for long."""
        attempts = self._attempts
        gap_s, self._turned_at = now - (self._turned_at or now), now
        if gap_s > _LONGEST_GAP_S and attempts.heard_at is not None:
            attempts.heard_at = min(now, attempts.heard_at + gap_s)
        if self._child is not None:
            self._child.poll()
        kept = self._read()
        if kept is None or not is_running(kept.identity):
            if attempts.started_at is None or now - attempts.started_at >= attempts.wait_s:
                self._start(now, predecessor=kept.predecessor if kept else None)
            return
        if kept.release != self._release:
            log.info("the gateway, process %d, is of other code and is replaced", kept.pid)
            self._start(now, predecessor=kept.identity)
            return
        heard_at = attempts.heard_at
        if self._has_reported() or heard_at is None:
            attempts.heard_at = now
        elif now - heard_at >= _MAY_BE_SILENT_S:
            log.warning("the gateway has reported nothing for %d s, and is replaced", now - heard_at)
            self._kill()

    async def stop(self, grace_s: float = _STOP_GRACE_S) -> None:
        """Nothing new is taken; what runs has `grace_s`, a little less of it by the gateway's own account."""
        kept = self._read()
        ending = [] if kept is None else [each for each in (kept.identity, kept.predecessor) if each is not None]
        ending = [each for each in ending if send_signal(each, signal.SIGTERM)]
        for _ in range(int(10 * grace_s)):
            if self._child is not None:
                self._child.poll()
            if not any(map(is_running, ending)):
                return
            await asyncio.sleep(0.1)
        for each in ending:
            kill_group(each)

    def _start(self, now: float, predecessor: ProcessIdentity | None) -> None:
        attempts = self._attempts
        was_stable = attempts.started_at is not None and now - attempts.started_at >= _STABLE_AFTER_S
        wait_s = _FIRST_WAIT_S if was_stable or not attempts.wait_s else min(2 * attempts.wait_s, _LONGEST_WAIT_S)
        self._attempts = _Attempts(wait_s=wait_s, started_at=now, heard_at=now)
        logs = self._directory / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        with (logs / "gateway.log").open("ab") as output:
            self._child = subprocess.Popen(
                self._command, env=self._environ, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip
        identity = identify(self._child.pid)
        if identity is not None:
            kept = _Kept(
                pid=identity.pid, start_ticks=identity.start_ticks, release=self._release, predecessor=predecessor
            )
            write_whole(self._directory / PID_FILE, msgspec.json.encode(kept))
        log.info("started the gateway as process %d", self._child.pid)

    def _kill(self) -> None:
        kept = self._read()
        if kept is not None:
            kill_group(kept.identity)

    def _read(self) -> _Kept | None:
        with suppress(FileNotFoundError, msgspec.DecodeError):
            return msgspec.json.decode((self._directory / PID_FILE).read_bytes(), type=_Kept)
        return None


def read_place(environ: Mapping[str, str]) -> GatewayPlace | None:
    """None where somebody else runs the gateway, as the local stack's supervisor does. Raises ValueError."""
    host = environ.get("TOKENYARD_AGENT_GATEWAY_HOST", "")
    if not host:
        return None
    port = int(environ.get("TOKENYARD_GATEWAY_PORT") or 8080)
    return GatewayPlace(host=host, port=port, admin_port=int(environ.get("TOKENYARD_GATEWAY_ADMIN_PORT") or port + 1))

"""One process that is started, probed until ready, started again when it ends, and stopped."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from deploy.local import pidfiles
from deploy.local.layout import Layout
from deploy.local.logs import log_file, tail
from deploy.local.policies import ExitHistory, GiveUp, after_exit
from deploy.local.processes import ProcessSpec
from deploy.local.readiness import until
from workers.agent.engines.identity import ProcessIdentity, identify

_PROBE_EVERY_S = 0.2
_KILLED_WITHIN_S = 2.0
_SHOWN_LINES = 15


class StartError(RuntimeError):
    """Something of the stack did not start; the message ends with what it said last."""


@dataclass(frozen=True)
class Status:
    name: str
    state: str
    identity: ProcessIdentity | None
    started_at: float | None
    restarts: int


class Supervised:
    """States: starting, ready, waiting (to be started again), stopped, failed."""

    def __init__(
        self,
        spec: ProcessSpec,
        *,
        layout: Layout,
        monotonic: Callable[[], float],
        clock: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self.spec = spec
        self._layout = layout
        self._monotonic = monotonic
        self._clock = clock
        self._changed = changed
        self._history = ExitHistory()
        self._state = "starting"
        self._process: asyncio.subprocess.Process | None = None
        self._identity: ProcessIdentity | None = None
        self._started_at: float | None = None
        self._stopping = asyncio.Event()
        self._first_ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._keeper: asyncio.Task[None] | None = None
        self._probe_error = ""

    @property
    def status(self) -> Status:
        return Status(self.spec.name, self._state, self._identity, self._started_at, self._history.restarts)

    async def start(self) -> None:
        """Returns when it answers its probe. Raises StartError."""
        self._keeper = asyncio.create_task(self._keep_running(), name=f"keep {self.spec.name}")
        try:
            async with asyncio.timeout(self.spec.start_limit_s):
                await asyncio.shield(self._first_ready)
        except TimeoutError:
            why = f"was not ready after {self.spec.start_limit_s:.0f} s {self._probe_error}".rstrip()
            raise StartError(self._explain(why)) from None

    async def stop(self, *, kill_after_s: float) -> None:
        self._stopping.set()
        if self._keeper is None:
            return
        self._signal(self.spec.stop_signal)
        done, _ = await asyncio.wait([self._keeper], timeout=max(0.0, kill_after_s))
        if not done:
            self._kill_group()
            await asyncio.wait([self._keeper], timeout=_KILLED_WITHIN_S)

    async def _keep_running(self) -> None:
        try:
            while not self._stopping.is_set():
                ran_for_s = await self._try_once()
                if not self._stopping.is_set():
                    await self._wait_to_restart(ran_for_s)
        except Exception as error:  # noqa: BLE001 - whatever kept it from starting is what start() reports
            self._fail(f"could not be started: {error}")
        finally:
            self._kill_group()
            self._set_state("failed" if self._state == "failed" else "stopped")

    async def _try_once(self) -> float:
        """Once it has been ready, what keeps it from starting (a full disk, too many processes) may pass."""
        try:
            return await self._run_once()
        except OSError:
            if not self._history.was_ready:
                raise
            return 0.0

    async def _run_once(self) -> float:
        started = self._monotonic()
        self._process = await self._spawn()
        self._record(self._process.pid)
        if self._stopping.is_set():
            self._signal(self.spec.stop_signal)
        probing = asyncio.create_task(self._probe_until_ready())
        await self._process.wait()
        probing.cancel()
        self._kill_group()
        self._identity = None
        with suppress(OSError):
            pidfiles.erase(self._layout.run, self.spec.name)
        return self._monotonic() - started

    async def _wait_to_restart(self, ran_for_s: float) -> None:
        decision = after_exit(self._history, ran_for_s=ran_for_s)
        if isinstance(decision, GiveUp):
            self._fail("keeps ending")
            self._stopping.set()
            return
        self._history = decision.history
        self._set_state("waiting")
        with suppress(TimeoutError):
            async with asyncio.timeout(decision.delay_s):
                await self._stopping.wait()

    async def _spawn(self) -> asyncio.subprocess.Process:
        lock = self.spec.lock() if self.spec.lock else None
        try:
            with log_file(self._layout.logs, self.spec.name).open("ab") as output:
                return await asyncio.create_subprocess_exec(
                    *self.spec.command,
                    cwd=self.spec.directory,
                    env=dict(self.spec.environment),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                    pass_fds=() if lock is None else (lock,),
                    **self.spec.popen_options,
                )
        finally:
            if lock is not None:
                os.close(lock)

    def _record(self, pid: int) -> None:
        self._identity = identify(pid)
        self._started_at = self._clock()
        if self._identity is not None:
            with suppress(OSError):  # it is for the next supervisor; this one remembers
                pidfiles.record(self._layout.run, self.spec.name, self._identity)
        self._set_state("starting")

    async def _probe_until_ready(self) -> None:
        await until(self._is_ready, every_s=_PROBE_EVERY_S)
        self._history = ExitHistory(self._history.restarts, self._history.failures, was_ready=True)
        self._set_state("ready")
        if not self._first_ready.done():
            self._first_ready.set_result(None)

    async def _is_ready(self) -> bool:
        try:
            return await self.spec.is_ready()
        except Exception as error:  # noqa: BLE001 - a probe that fails says no; dying of it, it would never say yes
            self._probe_error = f"{type(error).__name__}: {error}"
            return False

    def _fail(self, why: str) -> None:
        self._state = "failed"
        if not self._first_ready.done():
            self._first_ready.set_exception(StartError(self._explain(why)))

    def _explain(self, why: str) -> str:
        log = log_file(self._layout.logs, self.spec.name)
        return f"{self.spec.name} {why}. The end of {log}:\n" + "\n".join(tail(log, _SHOWN_LINES))

    def _set_state(self, state: str) -> None:
        self._state = state
        self._changed()

    def _signal(self, number: int) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _kill_group(self) -> None:
        """Also what the process started and left behind; an engine is not among it, being in a session of its own."""
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

"""Everything that runs, started in order and stopped in reverse, with its state in a file for `status`."""

import asyncio
import os
import signal
import subprocess
import time
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from deploy.local import logs, pidfiles, state
from deploy.local.layout import Layout
from deploy.local.policies import kill_at_s
from deploy.local.processes import ProcessSpec, StepSpec
from deploy.local.supervised import StartError, Supervised
from workers.agent.engines.identity import identify

_SHOWN_LINES = 15
_ROTATE_EVERY_S = 5.0


class Supervisor:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._running: list[Supervised] = []
        self._phase = "starting"
        self._started_at = time.time()
        self._stop_began: float | None = None

    async def start(self, spec: ProcessSpec) -> None:
        """Raises StartError."""
        one = Supervised(
            spec, layout=self._layout, monotonic=time.monotonic, clock=time.time, changed=self._write_state
        )
        self._running.append(one)
        await one.start()

    async def run_step(self, step: StepSpec) -> None:
        """Raises StartError when it fails or takes too long."""
        process = await self._spawn(step)
        self._record(step.name, process.pid)
        try:
            async with asyncio.timeout(step.limit_s):
                code = await process.wait()
        except TimeoutError:
            raise StartError(f"{step.name} was not done after {step.limit_s:.0f} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
            with suppress(OSError):
                pidfiles.erase(self._layout.run, step.name)
        if code != 0:
            raise StartError(f"{step.name} failed with exit code {code}{self._last_words(step)}")

    async def _spawn(self, step: StepSpec) -> asyncio.subprocess.Process:
        with self._log_of(step).open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *step.command,
                cwd=step.directory,
                env=dict(step.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=None if step.is_shown else log,
                start_new_session=True,
            )

    def _record(self, name: str, pid: int) -> None:
        identity = identify(pid)
        if identity is not None:
            with suppress(OSError):
                pidfiles.record(self._layout.run, name, identity)

    def _last_words(self, step: StepSpec) -> str:
        if step.is_shown:
            return ""
        log = self._log_of(step)
        return f". The end of {log}:\n" + "\n".join(logs.tail(log, _SHOWN_LINES))

    def _log_of(self, step: StepSpec) -> Path:
        return logs.log_file(self._layout.logs, step.name)

    def announce_phase(self, phase: str) -> None:
        self._phase = phase
        self._write_state()

    async def keep_logs_bounded(self) -> None:
        while True:
            with suppress(OSError):
                logs.rotate(self._layout.logs)
            await asyncio.sleep(_ROTATE_EVERY_S)

    async def stop(self, *, down_to_stage: int | None = None) -> None:
        """Stage by stage, the last started first; all of it within policies.STOP_LIMIT_S of the first call."""
        self.announce_phase("stopping")
        self._stop_began = self._stop_began or time.monotonic()
        stages = self._stages()
        for index, members in enumerate(stages):
            if down_to_stage is not None and members[0].spec.stage < down_to_stage:
                return
            left_s = kill_at_s(index, len(stages)) - (time.monotonic() - self._stop_began)
            await asyncio.gather(*(one.stop(kill_after_s=left_s) for one in members))

    def _stages(self) -> list[list[Supervised]]:
        ordered = sorted(self._running, key=lambda one: one.spec.stage, reverse=True)
        return [list(members) for _, members in groupby(ordered, key=lambda one: one.spec.stage)]

    def _write_state(self) -> None:
        """For those who watch from outside. A full or vanished disk must not keep anything from being stopped."""
        statuses = [one.status for one in self._running]
        with suppress(OSError):
            state.write(self._layout.state, phase=self._phase, started_at=self._started_at, statuses=statuses)

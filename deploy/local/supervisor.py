"""Everything that runs, started in order and stopped in reverse, with its state in a file for `status`."""

import asyncio
import os
import signal
import subprocess
import time
from contextlib import suppress
from itertools import groupby

from deploy.local import logs, state
from deploy.local.layout import Layout
from deploy.local.policies import kill_at_s
from deploy.local.processes import ProcessSpec, StepSpec
from deploy.local.supervised import StartError, Supervised

_SHOWN_LINES = 15
_ROTATE_EVERY_S = 5.0


class Supervisor:
    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._running: list[Supervised] = []
        self._phase = "starting"
        self._started_at = time.time()

    async def start(self, spec: ProcessSpec) -> None:
        """Raises StartError."""
        one = Supervised(
            spec, layout=self._layout, monotonic=time.monotonic, clock=time.time, changed=self._write_state
        )
        self._running.append(one)
        await one.start()

    async def run_step(self, step: StepSpec) -> None:
        """Raises StartError when it fails or takes too long."""
        log = logs.log_file(self._layout.logs, step.name)
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *step.command,
                cwd=step.directory,
                env=dict(step.environment),
                stdin=subprocess.DEVNULL,
                stdout=None if step.is_shown else output,
                stderr=None if step.is_shown else output,
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(step.limit_s):
                code = await process.wait()
        except TimeoutError:
            raise StartError(f"{step.name} was not done after {step.limit_s:.0f} s") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        if code != 0:
            said = "" if step.is_shown else f". The end of {log}:\n" + "\n".join(logs.tail(log, _SHOWN_LINES))
            raise StartError(f"{step.name} failed with exit code {code}{said}")

    def announce_phase(self, phase: str) -> None:
        self._phase = phase
        self._write_state()

    async def keep_logs_bounded(self) -> None:
        while True:
            logs.rotate(self._layout.logs)
            await asyncio.sleep(_ROTATE_EVERY_S)

    async def stop(self) -> None:
        """Stage by stage, the last started first; within policies.STOP_LIMIT_S."""
        self.announce_phase("stopping")
        began = time.monotonic()
        ordered = sorted(self._running, key=lambda one: one.spec.stage, reverse=True)
        stages = [list(members) for _, members in groupby(ordered, key=lambda one: one.spec.stage)]
        for index, members in enumerate(stages):
            left_s = kill_at_s(index, len(stages)) - (time.monotonic() - began)
            await asyncio.gather(*(one.stop(kill_after_s=left_s) for one in members))

    def _write_state(self) -> None:
        statuses = [one.status for one in self._running]
        state.write(self._layout.state, phase=self._phase, started_at=self._started_at, statuses=statuses)

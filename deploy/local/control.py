"""Commands that speak of a stack from outside its supervisor: status, logs, down, reset, and up in the background."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from urllib.parse import urlsplit

from deploy.local import credentials, logs, pidfiles, postgres, programme, state
from deploy.local.configuration import Configuration
from deploy.local.engines import end_engines
from deploy.local.layout import Layout
from deploy.local.leftovers import end_leftovers
from deploy.local.report import status_table, summary
from deploy.local.stack import AlreadyRunningError, sole_use
from workers.agent.engines.identity import ProcessIdentity, is_running, send_signal

_STOP_LIMIT_S = 15.0
_POLL_S = 0.1
_RECENT_LINES = 20
_SUPERVISOR_LOG = "supervisor"
Show = Callable[[str], None]


def status(configuration: Configuration, show: Show) -> int:
    layout = Layout(configuration.var)
    found = state.read_running(layout.state)
    if found is None:
        show(_without_supervisor(layout))
        return 3
    show(status_table(found, now=time.time(), urls=_urls(configuration, layout)))
    return 0


def _without_supervisor(layout: Layout) -> str:
    left = [name for name, one in pidfiles.recorded(layout.run) if is_running(one)]
    if not left:
        return f"No stack runs on {layout.var}. `make up` starts it."
    return (
        f"The supervisor of the stack in {layout.var} is gone, but these still run: {', '.join(left)}.\n"
        "`make up` takes over, `make down` ends them."
    )


def manage(configuration: Configuration, arguments: Sequence[str], show: Show) -> int:
    """manage.py with the running stack's database and keys."""
    layout = Layout(configuration.var)
    if state.read_running(layout.state) is None:
        show(_without_supervisor(layout))
        return 3
    running = as_it_runs(configuration, layout)
    step = programme.locate(running, layout, credentials.load_or_make(layout.secrets)).manage_step(arguments)
    return subprocess.run(step.command, env=step.environment, cwd=step.directory, check=False).returncode


def show_logs(configuration: Configuration, show: Show, *, has_colour: bool) -> int:
    layout = Layout(configuration.var)
    if not layout.logs.is_dir():
        show(f"There are no logs in {layout.var}.")
        return 1
    follower = logs.DirectoryFollower(layout.logs, has_colour=has_colour)
    for line in follower.recent_lines(_RECENT_LINES):
        show(line)
    with suppress(KeyboardInterrupt):
        asyncio.run(logs.follow(follower, show))
    return 0


def down(configuration: Configuration, show: Show) -> int:
    layout = Layout(configuration.var)
    if not layout.var.is_dir():
        show(f"There is no stack in {layout.var}.")
        return 0
    _stop_supervisor(layout, show)
    with sole_use(layout):
        end_leftovers(layout, show)
        end_engines(layout, show)
        layout.state.unlink(missing_ok=True)
    show("Stopped.")
    return 0


def reset(configuration: Configuration, show: Show) -> int:
    layout = Layout(configuration.var)
    down(configuration, show)
    postgres.forget(layout.postgres)
    for path in layout.owned():
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    show(f"Deleted the stack's data in {layout.var}.")
    return 0


def up_detached(configuration: Configuration, show: Show) -> int:
    """Starts a supervisor of its own and returns when it is ready, or with what it said when it was not."""
    layout = Layout(configuration.var)
    layout.make()
    with sole_use(layout):
        log = logs.log_file(layout.logs, _SUPERVISOR_LOG)
        log.touch()
        follower = logs.Follower(log, from_start=False)
    process = _start_in_background(layout)
    try:
        return _wait_until_ready(process, layout, follower, show)
    except KeyboardInterrupt:
        process.terminate()
        process.wait(_STOP_LIMIT_S)
        raise


def _start_in_background(layout: Layout) -> subprocess.Popen[bytes]:
    with logs.log_file(layout.logs, _SUPERVISOR_LOG).open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "deploy.local", "up", "--background"],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )


def _wait_until_ready(process: subprocess.Popen[bytes], layout: Layout, follower: logs.Follower, show: Show) -> int:
    while True:
        code = process.poll()
        found = state.read(layout.state)
        for line in follower.new_lines():
            show(line)
        if code is not None:
            return code or 1
        if found is not None and found.supervisor_pid == process.pid and found.phase == "ready":
            show(summary(json.loads(layout.demo.read_text())))
            return 0
        time.sleep(_POLL_S)


def _stop_supervisor(layout: Layout, show: Show) -> None:
    found = state.read_running(layout.state)
    if found is None or not send_signal(found.supervisor, signal.SIGTERM):
        return
    show(f"Stopping the stack (supervisor pid {found.supervisor_pid}) …")
    if not _ends(found.supervisor):
        raise AlreadyRunningError(
            f"The supervisor, pid {found.supervisor_pid}, does not end. `kill -9` it, then `make down`."
        )


def _ends(supervisor: ProcessIdentity) -> bool:
    deadline = time.monotonic() + _STOP_LIMIT_S
    while is_running(supervisor):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _urls(configuration: Configuration, layout: Layout) -> list[str]:
    running = as_it_runs(configuration, layout)
    return [f"console: {running.web_url}", f"gateway: {running.gateway_url}"]


def as_it_runs(configuration: Configuration, layout: Layout) -> Configuration:
    """With the ports that the stack had when it became ready, which may have been with other variables than ours."""
    try:
        demo = json.loads(layout.demo.read_text())
    except FileNotFoundError:
        return configuration
    return replace(
        configuration,
        web_port=urlsplit(demo["console_url"]).port or configuration.web_port,
        gateway_port=urlsplit(demo["gateway_url"]).port or configuration.gateway_port,
        gateway_admin_port=urlsplit(demo["gateway_admin_url"]).port or configuration.gateway_admin_port,
    )

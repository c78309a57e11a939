"""`up`: from nothing to a model that answers, and back."""

import asyncio
import fcntl
import json
import os
import resource
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from deploy.local import credentials, logs, programme, readiness
from deploy.local.configuration import Configuration
from deploy.local.engines import end_engines, has_engines
from deploy.local.layout import Layout, write_private
from deploy.local.leftovers import end_leftovers
from deploy.local.ports import check_ports
from deploy.local.processes import ProcessSpec
from deploy.local.programme import Programme
from deploy.local.report import demo_content, summary
from deploy.local.seed import Seed, read_seed
from deploy.local.supervised import StartError
from deploy.local.supervisor import Supervisor
from workers.contracts.layout import CRASHES_FILE
from workers.engines.registry import choose_engine
from workers.engines.site import list_gpu_names

_FIRST_ANSWER_LIMIT_S = 600.0
_ASK_EVERY_S = 0.5
_LOOK_AT_DATA_EVERY_S = 1.0
_OPEN_FILES = 65_536
Show = Callable[[str], None]


class AlreadyRunningError(RuntimeError):
    """Another supervisor runs on the same data."""


class DataGoneError(RuntimeError):
    """The data of the stack were deleted or replaced while it ran."""


@contextmanager
def sole_use(layout: Layout) -> Iterator[None]:
    """Raises AlreadyRunningError. The lock goes with the process, however it ends."""
    descriptor = os.open(layout.lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise AlreadyRunningError(
            f"A stack already runs on {layout.var}: `make status` shows it, `make down` stops it.\n"
            "A second one needs its own data and ports: make up TOKENYARD_VAR=… TOKENYARD_WEB_PORT=… …"
        ) from None
    else:
        yield
    finally:
        os.close(descriptor)


async def up(configuration: Configuration, show: Show, *, follows_logs: bool, has_colour: bool) -> None:
    """Runs until SIGINT, SIGTERM or SIGHUP, then stops everything. Raises StartError, PortTakenError and the like."""
    layout = Layout(configuration.var)
    layout.make()
    _allow_many_files()
    with sole_use(layout):
        end_leftovers(layout, show)
        check_ports(configuration, with_engines=not has_engines(layout))
        await _run_until_stopped(configuration, layout, show, follows_logs=follows_logs, has_colour=has_colour)


async def _run_until_stopped(
    configuration: Configuration, layout: Layout, show: Show, *, follows_logs: bool, has_colour: bool
) -> None:
    layout.demo.unlink(missing_ok=True)
    supervisor = Supervisor(layout)
    supervisor.announce_phase("starting")
    companions = [asyncio.create_task(one) for one in (supervisor.keep_logs_bounded(), _until_data_gone(layout))]
    _cancel_on_signals()
    try:
        demo = await _start(configuration, layout, supervisor, show)
        supervisor.announce_phase("ready")
        if follows_logs:  # else what we show goes to a log, where keys must not be
            show(summary(demo))
            companions.append(asyncio.create_task(_follow(layout, show, has_colour=has_colour)))
        await _first_of(companions)
    except asyncio.CancelledError:
        show("Stopping …")
    finally:
        for one in companions:
            one.cancel()
        await _stop(layout, supervisor)
        show("Stopped.")


async def _until_data_gone(layout: Layout) -> None:
    """Raises DataGoneError. Who has no lock any more must not go on beside whoever takes the new one."""
    ours = _file_number(layout.lock)
    while _file_number(layout.lock) == ours:  # noqa: ASYNC110 - a deleted file sets no event of ours
        await asyncio.sleep(_LOOK_AT_DATA_EVERY_S)
    raise DataGoneError(f"The data in {layout.var} were deleted while the stack ran: it has stopped.")


def _file_number(path: Path) -> int | None:
    with suppress(OSError):
        return path.stat().st_ino
    return None


async def _first_of(tasks: list[asyncio.Task[None]]) -> None:
    """Ends, or raises, as the first of them does."""
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    done.pop().result()


async def _stop(layout: Layout, supervisor: Supervisor) -> None:
    """Engines end once the agent is gone, which would start them again, and beside the rest, to save time."""
    await supervisor.stop(down_to_stage=programme.NODE_STAGE)
    await asyncio.gather(supervisor.stop(), asyncio.to_thread(end_engines, layout))
    layout.state.unlink(missing_ok=True)


async def _start(configuration: Configuration, layout: Layout, supervisor: Supervisor, show: Show) -> dict[str, Any]:
    """The content of demo.json."""
    engine = choose_engine(configuration.engine, len(list_gpu_names()))
    plan = programme.locate(configuration, layout, credentials.load_or_make(layout.secrets))
    show(f"Engine: {engine}. Data: {layout.var}")
    await supervisor.run_step(plan.engine_step(engine))
    await asyncio.to_thread(programme.prepare, plan)
    await _start_all(supervisor, plan.services(), show)
    await _timed("migrate", supervisor.run_step(plan.migrate_step()), show)
    await _timed("seed", supervisor.run_step(plan.seed_step(engine)), show)
    await _start_all(supervisor, plan.control_plane(), show)
    seed = read_seed(layout.seed)
    (layout.node / CRASHES_FILE).unlink(missing_ok=True)  # who starts anew wants every engine tried again
    await _start_all(supervisor, plan.node(seed), show)
    await _timed("model", _until_answered(plan, seed), show)
    demo = demo_content(configuration, seed, engine=engine)
    write_private(layout.demo, json.dumps(demo, indent=2))
    return demo


async def _start_all(supervisor: Supervisor, specs: list[ProcessSpec], show: Show) -> None:
    """At once: none of them needs another's answer to start, and each says for itself when it is ready."""
    await asyncio.gather(*(_timed(spec.name, supervisor.start(spec), show) for spec in specs))


async def _until_answered(plan: Programme, seed: Seed) -> None:
    """Every engine that should run is offered, and the public model answers through all of it."""
    key = next(iter(seed.tenants.values())).api_key
    answers = readiness.completes(plan.configuration.gateway_url, model=seed.model, api_key=key)
    try:
        async with asyncio.timeout(_FIRST_ANSWER_LIMIT_S):
            await readiness.until(readiness.offers_every_engine(plan.layout.node), every_s=_ASK_EVERY_S)
            await readiness.until(answers, every_s=_ASK_EVERY_S)
    except readiness.GivenUpError as error:
        raise StartError(str(error)) from None
    except TimeoutError:
        logs_at = plan.layout.logs
        raise StartError(f"{seed.model} gave no answer in {_FIRST_ANSWER_LIMIT_S:.0f} s; see {logs_at}") from None


async def _timed(name: str, work: Awaitable[None], show: Show) -> None:
    began = time.monotonic()
    await work
    show(f"  ✓ {name:<10} {time.monotonic() - began:6.1f} s")


async def _follow(layout: Layout, show: Show, *, has_colour: bool) -> None:
    await logs.follow(logs.DirectoryFollower(layout.logs, has_colour=has_colour), show)


def _allow_many_files() -> None:
    """For the gateway's connections; its children inherit the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _OPEN_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(_OPEN_FILES, hard) if hard > 0 else _OPEN_FILES, hard))


def _cancel_on_signals() -> None:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("signals are handled inside a task")
    cancelled = [False]

    def cancel_once() -> None:
        if not cancelled[0]:
            cancelled[0] = True
            task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        with suppress(NotImplementedError):
            asyncio.get_running_loop().add_signal_handler(number, cancel_once)

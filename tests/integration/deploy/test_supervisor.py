"""The supervisor with small processes in place of the real ones."""

import asyncio
import shutil
import signal
import sys
import textwrap
import time

import pytest

from deploy.local import pidfiles, state
from deploy.local.engines import end_engines
from deploy.local.layout import Layout
from deploy.local.leftovers import end, end_leftovers
from deploy.local.processes import ProcessSpec, StepSpec
from deploy.local.stack import AlreadyRunningError, sole_use
from deploy.local.supervised import StartError
from deploy.local.supervisor import Supervisor
from workers.agent.engines.identity import identify, is_running

pytestmark = pytest.mark.integration

PATIENT = "import time; time.sleep(60)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(60)"
)
PARENT = """
    import subprocess, sys, time
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    print(child.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def layout(tmp_path):
    layout = Layout(tmp_path / "var")
    layout.make()
    return layout


@pytest.fixture
async def supervisor(layout):
    supervisor = Supervisor(layout)
    yield supervisor
    await supervisor.stop()
    assert not [identity for _, identity in pidfiles.recorded(layout.run) if is_running(identity)]


def spec(layout, name="placeholder", *, program=PATIENT, stage=1, says=None, **fields):
    """Ready once its log contains `says`, or at once."""

    async def is_ready() -> bool:
        return says is None or says in (layout.logs / f"{name}.log").read_text()

    command = [sys.executable, "-u", "-c", textwrap.dedent(program)]
    fields = {"environment": {}, "directory": layout.var, "is_ready": is_ready, "start_limit_s": 20.0} | fields
    return ProcessSpec(name=name, stage=stage, command=command, **fields)


def running(layout, name):
    return dict(pidfiles.recorded(layout.run))[name]


async def until(condition):
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what it waits for happens in another process
            await asyncio.sleep(0.02)


async def test_start_returns_when_the_process_answers(layout, supervisor):
    program = "import time; time.sleep(0.3); print('open', flush=True); time.sleep(60)"
    await supervisor.start(spec(layout, program=program, says="open"))
    assert state.read(layout.state).processes[0].state == "ready"


async def test_a_killed_process_is_started_again_and_counted(layout, supervisor):
    await supervisor.start(spec(layout))
    first = running(layout, "placeholder")
    end({"placeholder": first}, print, stop_signal=signal.SIGKILL)
    await until(lambda: state.read(layout.state).processes[0].restarts == 1)
    await until(lambda: state.read(layout.state).processes[0].state == "ready")
    assert is_running(running(layout, "placeholder"))
    assert running(layout, "placeholder") != first


async def test_a_process_that_never_starts_is_given_up_with_its_last_words(layout, supervisor):
    with pytest.raises(StartError, match="no such planet"):
        await supervisor.start(spec(layout, program="raise SystemExit('no such planet')", says="never"))


async def test_a_command_that_does_not_exist_is_an_error_not_a_wait(layout, supervisor):
    missing = ProcessSpec(
        name="missing", stage=1, command=["/no/such/command"], environment={}, directory=layout.var, is_ready=None
    )
    with pytest.raises(StartError, match="/no/such/command"):
        await supervisor.start(missing)


async def test_a_process_that_is_never_ready_is_an_error(layout, supervisor):
    with pytest.raises(StartError, match="was not ready"):
        await supervisor.start(spec(layout, says="never", start_limit_s=0.5))


async def test_a_probe_that_fails_is_asked_again(layout, supervisor):
    asked = []

    async def is_ready() -> bool:
        asked.append(True)
        if len(asked) == 1:
            raise ValueError("the connection of the last probe is stale")
        return True

    await supervisor.start(spec(layout, is_ready=is_ready))
    assert state.read(layout.state).processes[0].state == "ready"


async def test_a_probe_that_only_fails_says_why(layout, supervisor):
    async def is_ready() -> bool:
        raise ValueError("no such probe")

    with pytest.raises(StartError, match="no such probe"):
        await supervisor.start(spec(layout, is_ready=is_ready, start_limit_s=0.5))


async def test_stop_goes_stage_by_stage_in_reverse(layout, supervisor):
    program = """
        import pathlib, signal, sys, time
        def note(*_):
            with open("ends", "a") as file:
                file.write(sys.argv[-1] + "\\n")
            sys.exit()
        signal.signal(signal.SIGTERM, note)
        print("up", flush=True)
        time.sleep(60)
    """
    for stage, name in enumerate(("first", "second", "third")):
        one = spec(layout, name, program=program, stage=stage, says="up")
        await supervisor.start(ProcessSpec(**{**vars(one), "command": [*one.command, name]}))
    await supervisor.stop()
    assert (layout.var / "ends").read_text().split() == ["third", "second", "first"]


async def test_a_process_that_ignores_the_stop_signal_is_killed(layout, supervisor, monkeypatch):
    monkeypatch.setattr("deploy.local.policies.STOP_LIMIT_S", 0.5)
    await supervisor.start(spec(layout, program=STUBBORN, says="deaf"))
    deaf = running(layout, "placeholder")
    await supervisor.stop()
    assert not is_running(deaf)


async def test_what_a_process_leaves_behind_goes_with_it(layout, supervisor):
    await supervisor.start(spec(layout, program=PARENT, says="\n"))
    child = identify(int((layout.logs / "placeholder.log").read_text()))
    assert is_running(child)
    await supervisor.stop()
    await until(lambda: not is_running(child))


async def test_a_stop_needs_no_file_of_the_stack(layout, supervisor):
    await supervisor.start(spec(layout, "calm", directory=layout.var.parent))
    await supervisor.start(spec(layout, "deaf", program=STUBBORN, says="deaf", directory=layout.var.parent))
    left = [running(layout, name) for name in ("calm", "deaf")]
    shutil.rmtree(layout.var)
    await supervisor.stop()
    assert [one for one in left if is_running(one)] == []


async def test_a_process_that_cannot_be_started_again_yet_is_tried_again(layout, supervisor):
    await supervisor.start(spec(layout))
    first = running(layout, "placeholder")
    hidden = layout.logs.rename(layout.var / "elsewhere")
    end({"placeholder": first}, print, stop_signal=signal.SIGKILL)
    await until(lambda: state.read(layout.state).processes[0].restarts >= 2)
    hidden.rename(layout.logs)
    await until(lambda: state.read(layout.state).processes[0].state == "ready")
    assert is_running(running(layout, "placeholder"))


async def test_an_engine_whose_pid_file_is_gone_is_ended(layout):
    (layout.node / "logs").mkdir()
    with (layout.node / "logs" / "engine-1.log").open("ab") as log:
        engine = await asyncio.create_subprocess_exec(sys.executable, "-c", PATIENT, stdout=log, start_new_session=True)
    shutil.rmtree(layout.node)
    await asyncio.gather(asyncio.to_thread(end_engines, layout), engine.wait())
    assert engine.returncode == -signal.SIGTERM


async def test_a_step_that_fails_is_reported_with_what_it_said(layout, supervisor):
    command = [sys.executable, "-c", "raise SystemExit('table missing')"]
    with pytest.raises(StartError, match="table missing"):
        await supervisor.run_step(StepSpec(name="migrate", command=command, environment={}, directory=layout.var))


async def test_a_step_that_hangs_is_ended(layout, supervisor):
    command = [sys.executable, "-c", PATIENT]
    step = StepSpec(name="migrate", command=command, environment={}, directory=layout.var, limit_s=0.3)
    with pytest.raises(StartError, match="not done"):
        await supervisor.run_step(step)


async def test_what_a_killed_supervisor_left_is_ended_by_the_next(layout):
    orphan = await asyncio.create_subprocess_exec(sys.executable, "-c", PATIENT, start_new_session=True)
    pidfiles.record(layout.run, "web", identify(orphan.pid))
    said = []
    ending = asyncio.to_thread(end_leftovers, layout, said.append)
    await asyncio.gather(ending, orphan.wait())
    assert orphan.returncode == -signal.SIGTERM
    assert said == [f"ending web (pid {orphan.pid})"]
    assert dict(pidfiles.recorded(layout.run)) == {}


async def test_a_stranger_who_got_a_recorded_pid_is_left_alone(layout):
    stranger = await asyncio.create_subprocess_exec(sys.executable, "-c", PATIENT)
    identity = identify(stranger.pid)
    pidfiles.record(layout.run, "web", type(identity)(identity.pid, identity.start_ticks - 100))
    end_leftovers(layout, print)
    assert is_running(identity)
    stranger.kill()
    await stranger.wait()


def test_two_supervisors_never_share_data(layout):
    with sole_use(layout), pytest.raises(AlreadyRunningError, match="make down"), sole_use(layout):
        pass


def test_a_dead_supervisor_does_not_count_as_running(layout):
    state.write(layout.state, phase="ready", started_at=time.time(), statuses=[])
    assert state.read_running(layout.state) is not None
    text = layout.state.read_text().replace('"supervisor_start_ticks":', '"supervisor_start_ticks":9')
    layout.state.write_text(text)
    assert state.read_running(layout.state) is None

"""Processes as the agent handles them: known again by what is on disk, and never mistaken for another."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.support.specs import replica_spec
from workers.agent.engines.identity import ProcessIdentity, identify, is_running, kill_group, send_signal
from workers.agent.engines.processes import EngineProcesses
from workers.engines.interface import LaunchPlan

pytestmark = pytest.mark.integration

SPEC = replica_spec()


@pytest.fixture
def processes(tmp_path):
    engines = EngineProcesses(tmp_path, os.environ)
    yield engines
    for replica_id in engines.observe():
        engines.kill(replica_id)


def plan(code="import time; time.sleep(60)"):
    return LaunchPlan(
        argv=[sys.executable, "-c", code],
        max_running_requests=1,
        start_timeout_s=5,
        stop_grace_s=1,
        memory_bytes=0,
    )


def wait_until(holds, timeout_s=10):
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def view(processes):
    return processes.observe()["replica-1"]


def test_what_was_started_is_known_to_the_next_agent(processes, tmp_path):
    processes.start(SPEC, plan())
    again = EngineProcesses(tmp_path, {})
    assert view(again).spec == SPEC
    assert view(again).is_alive
    assert view(again).pid == view(processes).pid


def test_how_an_engine_ended_is_told_and_why_as_far_as_it_said_so(processes):
    processes.start(SPEC, plan("raise SystemExit(3)"))
    wait_until(lambda: not view(processes).is_alive)
    assert view(processes).exit_detail == "ended with status 3"
    processes.forget("replica-1")
    processes.start(SPEC, plan("raise MemoryError('no room for the cache')"))
    wait_until(lambda: not view(processes).is_alive)
    assert view(processes).exit_detail == "ended with status 1: MemoryError: no room for the cache"
    processes.forget("replica-1")
    processes.start(SPEC, plan("raise SystemExit(3)"))
    wait_until(lambda: not view(processes).is_alive)
    assert view(processes).exit_detail == "ended with status 3"


def test_an_engine_that_says_much_fills_no_disk(processes, tmp_path):
    processes.start(SPEC, plan("print('x' * 30_000_000, flush=True); import time; time.sleep(60)"))
    log = tmp_path / "logs" / "engine-replica-1.log"
    wait_until(lambda: log.stat().st_size > 30_000_000)
    processes.bound_logs({"replica-1"})
    assert sum(each.stat().st_size for each in log.parent.iterdir()) < 12_000_000


def test_by_which_signal_an_engine_ended_is_told(processes):
    processes.start(SPEC, plan())
    processes.kill("replica-1")
    wait_until(lambda: not view(processes).is_alive)
    assert view(processes).exit_detail == "ended by SIGKILL"


def test_what_an_engine_said_is_in_its_log(processes):
    processes.start(SPEC, plan("print('one'); print('two'); print('three')"))
    wait_until(lambda: not view(processes).is_alive)
    assert processes.log_tail("replica-1", 2) == ["two", "three"]
    assert processes.log_tail("another", 2) == []


def test_killing_an_engine_ends_what_it_started(processes, tmp_path):
    record = tmp_path / "child"
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(record)!r}, 'w').write(str(child.pid) + '\\n')\n"
        "time.sleep(60)"
    )
    processes.start(SPEC, plan(code))
    wait_until(lambda: record.exists() and record.read_text().endswith("\n"))
    processes.kill("replica-1")
    wait_until(lambda: identify(int(record.read_text())) is None)


def test_forgetting_a_living_engine_is_refused(processes):
    processes.start(SPEC, plan())
    processes.forget("replica-1")
    assert view(processes).is_alive


def test_a_file_that_is_no_pid_file_of_ours_is_passed_over(processes, tmp_path):
    (tmp_path / "engine-x.pid").write_text("123")
    assert processes.observe() == {}


def test_an_engine_that_was_started_but_never_written_down_is_ended_before_the_next(processes, tmp_path):
    processes.start(SPEC, plan())
    stray = view(processes).pid
    (tmp_path / "engine-replica-1.pid").unlink()
    processes.start(SPEC, plan())
    wait_until(lambda: identify(stray) is None)
    assert view(processes).is_alive


def test_what_was_never_written_down_is_ended_by_the_next_agent_though_nobody_wants_it_any_more(processes, tmp_path):
    processes.start(SPEC, plan())
    stray = view(processes).pid
    (tmp_path / "engine-replica-1.pid").unlink()
    processes.start(replica_spec(replica_id="replica-2"), plan())
    EngineProcesses(tmp_path, {}).end_strays()
    wait_until(lambda: identify(stray) is None)
    assert processes.observe()["replica-2"].is_alive


def test_a_session_that_a_known_engine_began_is_no_stray(processes, tmp_path):
    record = tmp_path / "child"
    code = (
        "import subprocess, sys, time\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(60)']\n"
        "child = subprocess.Popen(sleep, start_new_session=True)\n"
        f"open({str(record)!r}, 'w').write(str(child.pid) + '\\n')\n"
        "time.sleep(60)"
    )
    processes.start(SPEC, plan(code))
    wait_until(lambda: record.exists() and record.read_text().endswith("\n"))
    child = int(record.read_text())
    try:
        EngineProcesses(tmp_path, {}).end_strays()
        assert identify(child) is not None
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_process_that_has_the_number_of_another_is_left_alone():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as bystander:
        try:
            mistaken = ProcessIdentity(bystander.pid, start_ticks=1)
            assert not is_running(mistaken)
            assert not send_signal(mistaken, signal.SIGKILL)
            kill_group(mistaken)
            assert identify(bystander.pid) is not None
        finally:
            bystander.kill()

"""`make up` as a person meets it, with the fake engine: one story, told in order on one stack."""

import json
import shutil
import signal
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

from deploy.local import pidfiles
from workers.agent.engines.identity import ProcessIdentity, identify, is_running

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

PROCESSES = {"postgres", "valkey", "web", "controller", "beat", "gateway", "agent"}


@pytest.fixture(scope="module")
def supervisor(stack):
    with stack.up() as running:
        stack.wait_until_ready(running)
        yield running


def pids(stack) -> dict[str, int]:
    return {one.name: one.pid for one in stack.state.processes}


def ask(stack, tenant="gold"):
    demo = stack.demo
    body = {"model": demo["model"], "max_tokens": 5, "messages": [{"role": "user", "content": "Hello"}]}
    request = urllib.request.Request(
        f"{demo['gateway_url']}/v1/chat/completions",
        data=json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {demo['tenants'][tenant]['api_key']}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def until(condition, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def processes_of(stack) -> list[str]:
    """Whatever runs with this stack's data in its command line or its working directory."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            where = str((process / "cwd").readlink())
            environment = (process / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(stack.var) in command + where or f"TOKENYARD_VAR={stack.var}" in environment:
            found.append(f"{process.name} {command}")
    return found


def test_everything_is_ready_when_it_says_so(stack, supervisor):
    assert {one.name: one.state for one in stack.state.processes} == dict.fromkeys(PROCESSES, "ready")
    assert ask(stack)["choices"][0]["message"]["content"]


def test_every_tenant_has_a_key_that_works(stack, supervisor):
    assert set(stack.demo["tenants"]) == {"gold", "standard", "batch"}
    for tenant in stack.demo["tenants"]:
        assert ask(stack, tenant)["usage"]["completion_tokens"] > 0


def test_what_is_printed_can_be_pasted(stack, supervisor):
    terminal = stack.terminal()
    assert stack.demo["console_url"] in terminal
    assert stack.demo["tenants"]["gold"]["api_key"] in terminal
    assert all(login["password"] in terminal for login in stack.demo["logins"])


def test_secrets_are_for_their_owner_only(stack, supervisor):
    private = [stack.layout.demo, stack.layout.seed, *stack.layout.secrets.iterdir()]
    assert {path.name: path.stat().st_mode & 0o077 for path in private if path.stat().st_mode & 0o077} == {}


def test_status_shows_what_runs(stack, supervisor):
    shown = stack.command("status")
    assert shown.returncode == 0
    assert all(f"\n{name}" in shown.stdout for name in PROCESSES - {"postgres"})
    assert stack.demo["console_url"] in shown.stdout


def test_manage_is_one_of_the_stacks_processes(stack, supervisor):
    asked = stack.command(
        "manage", "shell", "-c", "from apps.registry.models import Model; print(Model.objects.count())"
    )
    assert asked.returncode == 0
    assert int(asked.stdout.split()[-1]) > 0


def test_a_second_one_on_the_same_data_is_refused(stack, supervisor):
    second = stack.command("up")
    assert second.returncode == 1
    assert "already runs" in second.stderr
    assert ask(stack)


def test_a_taken_port_is_named_with_the_way_out(stack, supervisor, tmp_path):
    elsewhere = dict(stack.environment, TOKENYARD_VAR=str(tmp_path))
    second = type(stack)(tmp_path, elsewhere).command("up")
    assert second.returncode == 1
    port = stack.environment["TOKENYARD_WEB_PORT"]
    assert f"port {port} (console and REST) is taken" in second.stderr
    assert "make up TOKENYARD_WEB_PORT=" in second.stderr


@pytest.mark.parametrize("name", sorted(PROCESSES))
def test_whatever_is_killed_comes_back(stack, supervisor, name):
    before = pids(stack)[name]
    subprocess.run(["/bin/kill", "-9", str(before)], check=True)
    until(lambda: pids(stack)[name] not in {None, before})
    until(lambda: {one.name: one.state for one in stack.state.processes}[name] == "ready")
    until(lambda: answers(stack))


def answers(stack) -> bool:
    try:
        return bool(ask(stack))
    except OSError:
        return False


def test_after_the_supervisor_is_killed_the_node_serves_on_and_the_next_one_takes_over(stack, supervisor):
    left = {name: identify(pid) for name, pid in pids(stack).items()}
    supervisor.kill()
    supervisor.wait(10)
    assert ask(stack)
    assert "but these still run: agent, beat, controller, gateway" in stack.command("status").stdout
    with stack.up() as successor:
        stack.wait_until_ready(successor)
        assert ask(stack)
        assert [name for name, one in left.items() if still_runs(one)] == []
        engines = dict(pidfiles.recorded(stack.layout.node))
        assert len(engines) == 3
        began = time.monotonic()
        successor.send_signal(signal.SIGINT)
        assert successor.wait(15) == 0
        assert time.monotonic() - began < 10
    assert processes_of(stack) == []
    assert [name for name, one in engines.items() if is_running(one)] == []
    assert dict(pidfiles.recorded(stack.layout.run)) == {}


def still_runs(identity: ProcessIdentity | None) -> bool:
    return identity is not None and is_running(identity)


def test_in_the_background_it_returns_when_ready_and_keeps_the_keys(stack):
    key = stack.demo["tenants"]["gold"]["api_key"]
    started = stack.command("up", "--detach")
    assert started.returncode == 0, started.stdout + started.stderr
    assert stack.demo["tenants"]["gold"]["api_key"] == key
    assert ask(stack)
    assert key in started.stdout
    assert logs_that_hold(stack, key, *(login["password"] for login in stack.demo["logins"])) == []
    assert stack.command("down").returncode == 0
    assert processes_of(stack) == []


def logs_that_hold(stack, *secrets) -> list[Path]:
    return [log for log in stack.layout.var.rglob("*.log") if any(secret in log.read_text() for secret in secrets)]


def test_status_says_when_nothing_runs(stack):
    shown = stack.command("status")
    assert shown.returncode == 3
    assert "make up" in shown.stdout


def test_manage_says_when_nothing_runs(stack):
    refused = stack.command("manage", "check")
    assert refused.returncode == 3
    assert "make up" in refused.stdout


def test_reset_asks_before_it_deletes(stack):
    refused = stack.command("reset")
    assert refused.returncode == 1
    assert stack.layout.secrets.is_dir()
    assert stack.command("reset", "--yes").returncode == 0
    assert not stack.layout.secrets.exists()
    assert not stack.layout.postgres.exists()


def test_when_its_data_are_deleted_the_stack_stops_and_says_why(stack):
    with stack.up() as supervisor:
        stack.wait_until_ready(supervisor)
        left = [identify(pid) for pid in pids(stack).values()]
        left += [engine for _, engine in pidfiles.recorded(stack.layout.node)]
        shutil.rmtree(stack.var, ignore_errors=True)
        assert supervisor.wait(20) == 1
    assert [one for one in left if is_running(one)] == []

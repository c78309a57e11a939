"""What dies in the middle of something, told on one stack of real processes under traffic.

Nothing runs that should not, nothing stops that should run, and no request is lost that an engine could answer.
"""

import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

from deploy.local import pidfiles
from tests.integration.stack.test_local_stack import pids, until
from workers.agent.engines.identity import is_running

pytestmark = [pytest.mark.integration, pytest.mark.timeout(400)]

DEPLOYMENT = "demo-chat-v1"
CONTROL_PLANE = ("controller", "web", "valkey", "postgres", "beat")


@pytest.fixture(scope="module")
def running(stack):
    with stack.up() as supervisor:
        stack.wait_until_ready(supervisor)
        yield stack


class Clients:
    """Ask without a pause, each its next question after the answer; what went wrong is kept in words."""

    def __init__(self, stack, count=3):
        demo = stack.demo
        self._url = f"{demo['gateway_url']}/v1/chat/completions"
        self._model, self._key = demo["model"], demo["tenants"]["gold"]["api_key"]
        self.answered = 0
        self.failures = []
        self._stopping = threading.Event()
        self._pool = ThreadPoolExecutor(count)
        self._loops = [self._pool.submit(self._ask_for_ever) for _ in range(count)]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stopping.set()
        self._pool.shutdown()
        for loop in self._loops:
            loop.result()

    def go_on(self):
        """Until a few more have been answered, or one was not."""
        answered = self.answered
        until(lambda: self.answered > answered + 5 or self.failures)

    def _ask_for_ever(self):
        while not self._stopping.is_set():
            try:
                self._ask()
                self.answered += 1
            except OSError as error:
                body = error.read()[:200] if hasattr(error, "read") else b""
                self.failures.append(f"{error} {body}")
                time.sleep(0.2)

    def _ask(self):
        message = {"role": "user", "content": f"Question {self.answered}"}
        body = {"model": self._model, "max_tokens": 20, "messages": [message]}
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url, data=json.dumps(body).encode(), headers=headers)
        with urllib.request.urlopen(request, timeout=90) as answer:
            assert answer.status == 200


def control(stack, code):
    """Runs it inside the control plane, and reads the JSON that it prints last."""
    imports = (
        "import json\n"
        "from django.utils.timezone import now\n"
        "from apps.common.actors import SYSTEM\n"
        "from apps.deployments.models import Deployment, Replica\n"
        "from apps.deployments.selectors import get_deployment, get_rollout\n"
        "from apps.deployments.services.deployments import Change, change_deployment, drain_replica\n"
        f"row = get_deployment(Deployment.objects.get(name='{DEPLOYMENT}').pk)\n"
    )
    done = stack.command("manage", "shell", "--no-imports", "-c", imports + code)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def rollout(stack):
    return control(stack, "rollout = get_rollout(row)\nprint(json.dumps([rollout.state, rollout.newer_ready_count]))")


def change(stack, **facts):
    control(stack, f"change_deployment(actor=SYSTEM, deployment=row, change=Change(**{facts}), now=now())\nprint(1)")


def replicas(stack):
    """Id → state, of the deployment."""
    return control(stack, "print(json.dumps({str(r.pk): r.state for r in row.replicas.all()}))")


def engines(stack):
    """By replica id, those that run now."""
    found = dict(pidfiles.recorded(stack.layout.node))
    return {
        name.removeprefix("engine-"): identity
        for name, identity in found.items()
        if name.startswith("engine-") and is_running(identity)
    }


def kill(stack, name, number=signal.SIGKILL):
    before = pids(stack)[name]
    subprocess.run(["/bin/kill", f"-{number}", str(before)], check=True)
    return before


def kill_engine(stack, replica_id, killed):
    """The next of them that is not yet killed; one found a moment ago may be gone by now."""
    found = None

    def has_another():
        nonlocal found
        found = engines(stack).get(replica_id)
        return found not in killed

    until(has_another, timeout_s=60)
    os.kill(found.pid, signal.SIGKILL)
    return found


def until_back(stack, name, before):
    until(lambda: pids(stack)[name] not in {None, before}, timeout_s=90)
    until(lambda: {one.name: one.state for one in stack.state.processes}[name] == "ready", timeout_s=90)


def until_done(stack, replica_count):
    until(lambda: rollout(stack) == ["done", replica_count], timeout_s=150)


def test_a_rollout_goes_on_and_loses_no_request_while_all_of_the_control_plane_is_killed(running):
    old = set(replicas(running))
    with Clients(running) as clients:
        change(running, max_running_requests=32)
        for name in CONTROL_PLANE:
            until_back(running, name, kill(running, name))
        until_done(running, 1)
        clients.go_on()
    assert clients.failures == []
    new = replicas(running)
    assert (set(new) & old, list(new.values())) == (set(), ["ready"])
    assert len(engines(running)) == 3


def test_an_agent_that_dies_while_one_drains_and_one_starts_ends_both(running):
    change(running, max_running_requests=48)
    until(lambda: len(engines(running)) == 4, timeout_s=90)
    until_back(running, "agent", kill(running, "agent"))
    until_done(running, 1)
    assert len(engines(running)) == 3
    assert set(replicas(running)) <= set(engines(running))


def test_an_engine_that_hangs_is_replaced_and_what_it_had_is_answered_by_the_other(running):
    change(running, replica_count=2)
    until(lambda: list(replicas(running).values()) == ["ready", "ready"], timeout_s=90)
    victim = engines(running)[min(replicas(running))]
    with Clients(running) as clients:
        until(lambda: clients.answered > 10)
        os.kill(victim.pid, signal.SIGSTOP)
        began = time.monotonic()
        until(lambda: not is_running(victim), timeout_s=60)
        assert time.monotonic() - began < 40
        until(lambda: list(replicas(running).values()) == ["ready", "ready"], timeout_s=90)
        clients.go_on()
    assert clients.failures == []


def test_an_engine_that_is_killed_again_and_again_comes_back_and_is_no_more_than_one(running):
    replica_id = min(replicas(running))
    killed = {None}
    for _ in range(3):
        killed.add(kill_engine(running, replica_id, killed))
    until(lambda: engines(running).get(replica_id) not in killed, timeout_s=120)
    until(lambda: replicas(running)[replica_id] == "ready", timeout_s=120)
    assert len(engines(running)) == 4


def test_what_was_wanted_while_the_agent_was_away_is_so_when_it_is_back(running):
    agent = kill(running, "agent", signal.SIGSTOP)
    change(running, replica_count=1)
    time.sleep(6)
    assert len(engines(running)) == 4
    os.kill(agent, signal.SIGCONT)
    until(lambda: len(engines(running)) == 3, timeout_s=120)
    until(lambda: list(replicas(running).values()) == ["ready"], timeout_s=60)

"""Real vLLM on two "nodes" of this machine, each part started as its node's agent would: minutes, and a compiler."""

import json
import os
import signal
import subprocess

import pytest

from tests.support.engines import post, running_engine
from tests.support.fake_engines import free_port
from tests.support.specs import replica_spec
from workers.contracts.desired import ReplicaPart

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]


@pytest.fixture
def parts():
    port, meeting = free_port(), free_port()
    return [
        replica_spec(
            engine="vllm",
            source="smollm2-135m-instruct",
            served_name="demo-chat",
            port=port,
            max_context_tokens=512,
            max_running_requests=4,
            part=ReplicaPart(
                rank=rank,
                count=2,
                run=0,
                stages=2,
                host="127.0.0.1",
                master_host="127.0.0.1",
                master_port=meeting,
                may_start=True,
            ),
        )
        for rank in (0, 1)
    ]


def test_two_parts_answer_as_one(vllm_adapter, parts, tmp_path):
    leader, follower = parts
    plan = vllm_adapter.plan(follower)
    with (tmp_path / "follower.log").open("wb") as output:
        process = subprocess.Popen(
            plan.argv, env=os.environ | plan.env, stdout=output, stderr=output, start_new_session=True
        )
    try:
        with running_engine(vllm_adapter, leader, tmp_path / "leader.log") as url:
            question = {"messages": [{"role": "user", "content": "Name three colours."}], "max_tokens": 8}
            status, body = post(f"{url}/v1/chat/completions", question | {"temperature": 0})
            assert (status, process.poll()) == (200, None)
            assert "Red" in json.loads(body)["choices"][0]["message"]["content"]
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(timeout=10)

"""An engine on two nodes: two agents, two real fake engines that meet, and ends of either."""

import os
import signal
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from msgspec import structs

from tests.integration.agent.test_agent import QUICK, agent, desired, offered, spec
from tests.support.control_plane import control_plane, eventually
from tests.support.fake_engines import free_port
from workers.agent.engines.processes import EngineProcesses
from workers.contracts.desired import ReplicaPart

pytestmark = pytest.mark.integration


class Pair:
    def __init__(self, planes, directories):
        self.planes, self.directories, self.generation = planes, directories, 0
        self.one = spec()

    def want(self, run, *, ranks=(0, 1), port=None, **changes):
        """What both are told; the generation grows."""
        self.generation += 1
        self.port = port or free_port()
        for rank in ranks:
            part = ReplicaPart(
                rank=rank, count=2, run=run, host="127.0.0.1", master_host="127.0.0.1", master_port=self.port,
                may_start=True, is_broken=run > 0,
            )  # fmt: skip
            told = structs.replace(self.one, part=part, spec_hash=f"run-{run}-{rank}", **changes)
            self.planes[rank].desired = desired(told, generation=self.generation)

    def state(self, rank):
        latest = self.planes[rank].latest
        return latest.replicas[0].state if latest and latest.replicas else None

    def kill(self, rank):
        os.kill(self.planes[rank].latest.replicas[0].pid, signal.SIGKILL)


@asynccontextmanager
async def pair(tmp_path):
    directories = [tmp_path / "n1", tmp_path / "n2"]
    async with AsyncExitStack() as stack:
        planes = []
        for directory in directories:
            directory.mkdir()
            plane = await stack.enter_async_context(control_plane())
            await stack.enter_async_context(agent(directory, plane, QUICK))
            planes.append(plane)
        try:
            yield Pair(planes, directories)
        finally:
            for processes in (EngineProcesses(directory, {}) for directory in directories):
                for replica_id in processes.observe():
                    processes.kill(replica_id)


async def test_the_leader_is_never_ready_without_its_follower_and_is_with_it(tmp_path):
    async with pair(tmp_path) as both:
        both.want(0, ranks=(0,))
        await eventually(lambda: both.state(0) == "starting")
        port = both.port
        assert offered(both.directories[0]) == {}
        both.want(0, ranks=(1,), port=port)
        await eventually(lambda: both.state(0) == both.state(1) == "ready", timeout_s=30)
        assert (len(offered(both.directories[0])), offered(both.directories[1])) == (1, {})


@pytest.mark.parametrize("rank", [0, 1])
async def test_one_that_dies_takes_the_other_along_and_neither_starts_by_itself(tmp_path, rank):
    async with pair(tmp_path) as both:
        both.want(0)
        await eventually(lambda: both.state(0) == both.state(1) == "ready", timeout_s=30)
        both.kill(rank)
        await eventually(lambda: both.state(0) == both.state(1) == "failed", timeout_s=30)
        assert offered(both.directories[0]) == {}
        both.want(1)
        await eventually(lambda: both.state(0) == both.state(1) == "ready", timeout_s=30)


async def test_a_follower_of_a_run_before_is_not_let_into_the_next(tmp_path):
    async with pair(tmp_path) as both:
        both.want(0, ranks=(1,))
        await eventually(lambda: both.state(1) == "ready")
        both.want(1, ranks=(0,), port=both.port)
        await eventually(lambda: "sent away part 1 of run 0" in log_of(both.directories[0]), timeout_s=20)
        await eventually(lambda: both.state(0) == "starting")


def log_of(directory):
    return "".join(path.read_text() for path in directory.glob("logs/*.log"))

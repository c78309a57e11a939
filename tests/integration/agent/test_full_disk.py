"""A node whose disk is full: what shall end ends, what cannot be written down does not run, and then it goes on."""

import errno
import os

import pytest
from msgspec import structs

from tests.integration.agent.test_agent import agent, desired, node, offered, spec, state_of
from tests.support.control_plane import control_plane, eventually
from workers.agent import join as join_module
from workers.agent.engines import processes
from workers.agent.engines.identity import find_marked
from workers.contracts import layout

pytestmark = pytest.mark.integration
__all__ = ["node"]


class Disk:
    """Every whole file that the agent writes goes through it."""

    def __init__(self, write):
        self._write = write
        self.is_full = False

    def write_whole(self, path, content, **options):
        if self.is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._write(path, content, **options)


@pytest.fixture
def disk(monkeypatch):
    found = Disk(layout.write_whole)
    for module in (layout, processes):
        monkeypatch.setattr(module, "write_whole", found.write_whole)
    return found


def engines_of(node):
    return [identity for marker, identity in find_marked("ENGINE_OF_REPLICA") if marker == f"{node}:replica-1"]


async def test_what_shall_stop_stops_though_nothing_can_be_written(node, disk):
    one = spec()
    async with control_plane() as plane:
        async with agent(node, plane):
            plane.desired = desired(one)
            await eventually(lambda: state_of(plane) == "ready")
            disk.is_full = True
            plane.desired = desired(structs.replace(one, is_draining=True), generation=2)
            await eventually(lambda: state_of(plane) == "stopped")
            assert plane.latest.desired_generation == 2
            disk.is_full = False
            await eventually(lambda: offered(node) == {})
        async with agent(node, plane):
            await eventually(lambda: plane.latest.desired_generation == 2)


async def test_an_engine_that_cannot_be_written_down_does_not_run_and_is_started_once_it_can(node, disk):
    one = spec()
    async with control_plane() as plane, agent(node, plane):
        await eventually(lambda: plane.latest)
        disk.is_full = True
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "failed")
        assert "No space left" in plane.latest.replicas[0].detail
        assert engines_of(node) == []
        disk.is_full = False
        await eventually(lambda: state_of(plane) == "ready", timeout_s=30)
        assert len(engines_of(node)) == 1


async def test_a_node_whose_disk_is_full_before_its_first_link_is_linked_and_keeps_the_key_once_it_can(node, disk):
    disk.is_full = True
    key = node / layout.PUBLIC_KEY_FILE
    key.unlink(missing_ok=True)
    async with control_plane() as plane, agent(node, plane):
        await eventually(lambda: plane.latest)
        assert not key.exists()
        disk.is_full = False
        await eventually(key.exists)


def test_a_join_token_is_not_spent_where_its_answer_could_not_be_kept(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(join_module, "_exchange", lambda *_: asked.append(1))
    closed = tmp_path / "a file"
    closed.touch()
    with pytest.raises(join_module.JoinError, match="cannot be written to"):
        join_module.join("tyj-x@http://127.0.0.1:1", closed / "agent", name="n1", gateway_url="")
    assert asked == []

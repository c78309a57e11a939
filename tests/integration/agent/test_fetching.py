"""Weights come from a hub of our own, over HTTP, into the places where engines look for them."""

import asyncio
import os
import subprocess
import sys

import pytest

from tests.integration.agent.test_agent import agent, desired, node, spec, state_of
from tests.integration.agent.test_processes import wait_until
from tests.support.control_plane import control_plane, eventually
from tests.support.hub import SHA, running_hub
from workers.agent.engines.identity import identify, is_running
from workers.agent.storage.downloads import FetchError
from workers.agent.storage.fetching import Repository, fetch_weights
from workers.agent.storage.weights import cached_weights, has_weights

pytestmark = pytest.mark.integration

FILES = {"config.json": b"{}", "model-1.safetensors": b"a" * 300_000, "model-1.bin": b"b" * 9, "sub/tokens.txt": b"t"}
__all__ = ["node"]


@pytest.fixture
def hub():
    with running_hub(dict(FILES)) as running:
        yield running


def repository(hub):
    return Repository("org/small", endpoint=hub.url, token="", sleep=lambda _: None)


def fetch(hub, directory):
    told = []
    fetch_weights(repository(hub), "", directory, told.append)
    return told


def test_a_snapshot_is_there_whole_or_not_at_all_and_in_one_form(hub, tmp_path):
    told = fetch(hub, tmp_path)
    assert has_weights(tmp_path, "org/small", "")
    assert cached_weights(tmp_path)["org/small"] == 300_003
    snapshot = tmp_path / "models--org--small" / "snapshots" / SHA
    assert sorted(path.name for path in snapshot.rglob("*") if path.is_file()) == [
        "config.json", "model-1.safetensors", "tokens.txt",
    ]  # fmt: skip
    assert (told[-1].done_bytes, told[-1].total_bytes) == (300_003, 300_003)


def test_what_breaks_off_goes_on_where_it_was(hub, tmp_path):
    hub.breaks_after = 100_000
    fetch(hub, tmp_path)
    asked = [bytes_range for path, bytes_range in hub.asked if path.endswith("model-1.safetensors")]
    assert asked[0] is None
    assert asked[1].startswith("bytes=")
    assert has_weights(tmp_path, "org/small", "")


def test_what_came_damaged_is_not_kept(hub, tmp_path):
    hub.damages = {"model-1.safetensors"}
    with pytest.raises(FetchError, match="came damaged"):
        fetch(hub, tmp_path)
    assert not has_weights(tmp_path, "org/small", "")
    hub.damages = set()
    fetch(hub, tmp_path)
    assert has_weights(tmp_path, "org/small", "")


def test_what_the_disk_does_not_hold_is_not_begun(hub, tmp_path):
    hub.claims_bytes = 10**18
    with pytest.raises(FetchError, match="of the disk are free"):
        fetch(hub, tmp_path)
    assert [path for path, _ in hub.asked if "/resolve/" in path] == []


def test_a_repository_that_is_not_there_says_so(hub, tmp_path):
    hub.files = {"../../evil": b"", "gone": b""}
    del hub.files["gone"]
    fetch(hub, tmp_path)
    assert not (tmp_path / "evil").exists()
    missing = Repository("org/none", endpoint=f"{hub.url}/nowhere", token="", sleep=lambda _: None)
    hub.listing = lambda: b"not json"
    with pytest.raises(FetchError, match="something else"):
        fetch_weights(missing, "", tmp_path, lambda _: None)


async def test_a_replica_fetches_says_how_far_it_is_and_starts(hub, node, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    hub.is_held.clear()
    one = spec(weights_repository="org/small")
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "fetching")
        await asyncio.to_thread(hub.is_held.set)
        await eventually(lambda: state_of(plane) == "ready", timeout_s=30)
    assert has_weights(tmp_path / "hub", "org/small", "")


async def test_a_download_that_fails_says_why_and_is_tried_again(hub, node, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", hub.url)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    hub.claims_bytes = 10**18
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(spec(weights_repository="org/small"))
        await eventually(lambda: state_of(plane) == "failed", timeout_s=30)
        assert "of the disk are free" in plane.latest.replicas[0].detail
        hub.claims_bytes = None
        await eventually(lambda: state_of(plane) == "ready", timeout_s=30)


AGENT = "import subprocess, sys; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); sys.stdin.read()"


def test_a_download_ends_with_the_agent_that_began_it_also_while_the_hub_says_nothing(hub, tmp_path):
    hub.is_held.clear()
    module = "workers.agent.storage.fetching"
    fetching = [sys.executable, "-m", module, "--repository", "org/small", "--hub", str(tmp_path)]
    environ = os.environ | {"HF_ENDPOINT": hub.url}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", AGENT, *fetching], stdin=pipe, stdout=pipe, env=environ) as agent:
        child = identify(int(agent.stdout.readline()))
        wait_until(lambda: any("/resolve/" in path for path, _ in hub.asked), 30)
        agent.kill()
        agent.wait()
        wait_until(lambda: not is_running(child))

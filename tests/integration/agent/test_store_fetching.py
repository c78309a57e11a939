"""Weights come from a real S3-speaking server, over HTTP with signatures, into a directory that engines start from."""

import asyncio
import os
import shutil
import subprocess
import sys

import msgspec
import pytest
from msgspec import structs

from tests.integration.agent.test_agent import agent, desired, node, spec, state_of
from tests.support.control_plane import control_plane, eventually
from tests.support.object_store import BUCKET, running_store
from workers.agent.storage.downloads import FetchError
from workers.agent.storage.store_fetching import Bucket, fetch_stored_weights
from workers.agent.storage.stored_weights import StoredWeights, part_directory, stored_keys, whole_directory
from workers.agent.storage.weights import cached_weights
from workers.contracts.store_client import NotInStoreError, ObjectStore, StoreRefusedError
from workers.contracts.stores import digest_of, parse_source

pytestmark = pytest.mark.integration

__all__ = ["node"]

ODD = "sub dir/mö+del%20 #1?&'~.txt"
WEIGHTS = bytes(range(256)) * 1200
OBJECTS = {
    "llama/config.json": b"{}",
    "llama/model-1.safetensors": WEIGHTS,
    "llama/model-1.bin": b"the same in other clothes",
    f"llama/{ODD}": b"odd",
    "llama/sub dir/": b"",
    "llama-2/config.json": b"another model's",
    "one/model.gguf": b"GGUF",
    "tone/adapter_config.json": b'{"peft_type": "LORA", "r": 8}',
    "tone/adapter_model.safetensors": b"a small adapter",
}


@pytest.fixture(scope="module")
def shared():
    with running_store(OBJECTS) as running:
        yield running


@pytest.fixture
def store(shared):
    shared.asked.clear()
    shared.breaks_after, shared.damages = None, []
    yield shared
    shared.is_open.set()
    shared.put("llama/model-1.safetensors", WEIGHTS)


def opened(store, **changes):
    environ = changes.pop("environ", store.environ)
    return ObjectStore(structs.replace(store.address, **changes), BUCKET, environ)


def bucket(store, piece_bytes=50_000):
    return Bucket(opened(store), sleep=lambda _: None, piece_bytes=piece_bytes)


def wanted(store, source=f"s3://{BUCKET}/llama"):
    parsed = parse_source(source)
    digest = digest_of(opened(store).list_objects(parsed))
    return StoredWeights(source=parsed, digest=digest, address=store.address)


def fetch(store, hub, what):
    told = []
    fetch_stored_weights(bucket(store), what, hub, told.append)
    return told


def test_a_prefix_is_there_whole_and_in_one_form_whatever_its_keys_are(store, tmp_path):
    what = wanted(store)
    told = fetch(store, tmp_path, what)
    directory = whole_directory(tmp_path, what)
    found = {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}
    assert found == {"config.json", "model-1.safetensors", ODD, ".tokenyard-key"}
    assert (directory / "model-1.safetensors").read_bytes() == WEIGHTS
    assert (directory / ODD).read_bytes() == b"odd"
    assert told[-1].done_bytes == told[-1].total_bytes == len(WEIGHTS) + 5
    assert not part_directory(tmp_path, what).exists()
    assert list(cached_weights(tmp_path)) == [what.key] == list(stored_keys(tmp_path))


def test_one_object_is_a_source_too(store, tmp_path):
    what = wanted(store, f"s3://{BUCKET}/one/model.gguf")
    fetch(store, tmp_path, what)
    assert (whole_directory(tmp_path, what) / "model.gguf").read_bytes() == b"GGUF"


def test_an_interrupted_download_goes_on_where_it_was(store, tmp_path):
    what, first = wanted(store), bucket(store)
    told = []

    def interrupted(progress):
        told.append(progress.done_bytes)
        if progress.done_bytes > 100_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch_stored_weights(first, what, tmp_path, interrupted)
    assert cached_weights(tmp_path) == {}
    store.asked.clear()
    fetch(store, tmp_path, what)
    begins = [int(asked.removeprefix("bytes=").split("-")[0]) for path, asked in store.asked if "model-1.saf" in path]
    assert min(begins) > 50_000
    assert (whole_directory(tmp_path, what) / "model-1.safetensors").read_bytes() == WEIGHTS


def test_what_breaks_off_is_asked_for_again(store, tmp_path):
    what = wanted(store)
    store.breaks_after = 30_000
    fetch(store, tmp_path, what)
    assert (whole_directory(tmp_path, what) / "model-1.safetensors").read_bytes() == WEIGHTS


def test_what_came_damaged_is_fetched_once_more_and_not_kept_when_it_is_damaged_again(store, tmp_path):
    what = wanted(store)
    store.damages = [b"?"]
    fetch(store, tmp_path / "once", what)
    assert (whole_directory(tmp_path / "once", what) / "model-1.safetensors").read_bytes() == WEIGHTS
    store.damages = [b"!"] * 3 + [b"?"] * 7
    with pytest.raises(FetchError, match="came damaged"):
        fetch(store, tmp_path / "twice", what)
    assert not whole_directory(tmp_path / "twice", what).exists()


def test_what_was_changed_in_the_bucket_is_not_what_the_version_was_made_of(store, tmp_path):
    what = wanted(store)
    store.put("llama/model-1.safetensors", b"another")
    with pytest.raises(FetchError, match="make another version"):
        fetch(store, tmp_path, what)
    assert cached_weights(tmp_path) == {}


def test_a_change_while_it_is_fetched_is_noticed(store, tmp_path):
    what = wanted(store)

    def changing(_):
        store.put("llama/model-1.safetensors", b"z" * len(WEIGHTS))

    with pytest.raises(FetchError, match="changed in its bucket"):
        fetch_stored_weights(bucket(store), what, tmp_path, changing)
    assert not whole_directory(tmp_path, what).exists()


def test_what_the_disk_does_not_hold_is_not_begun(store, tmp_path, monkeypatch):
    what = wanted(store)
    full = shutil.disk_usage(tmp_path)._replace(free=2**20)
    monkeypatch.setattr("workers.agent.storage.downloads.shutil.disk_usage", lambda _: full)
    with pytest.raises(FetchError, match="of the disk are free"):
        fetch(store, tmp_path, what)
    assert store.asked == []


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({"AWS_ACCESS_KEY_ID": "nobody", "AWS_SECRET_ACCESS_KEY": "s3cr3t"}, "InvalidAccessKeyId"),
        ({"AWS_SHARED_CREDENTIALS_FILE": "/nowhere"}, "no credentials"),
    ],
)
def test_who_may_not_read_is_told_so_without_a_secret(store, environ, says):
    with pytest.raises(StoreRefusedError, match=says) as caught:
        opened(store, environ=environ).list_objects(parse_source(f"s3://{BUCKET}/llama"))
    assert "s3cr3t" not in str(caught.value)


def test_a_wrong_secret_is_refused(store):
    environ = store.environ | {"AWS_SECRET_ACCESS_KEY": "wr0ng"}
    with pytest.raises(StoreRefusedError, match="SignatureDoesNotMatch"):
        opened(store, environ=environ).list_objects(parse_source(f"s3://{BUCKET}/llama"))


def test_what_is_not_there_is_said_to_be_missing(store):
    with pytest.raises(NotInStoreError, match="nothing under"):
        opened(store).list_objects(parse_source(f"s3://{BUCKET}/lla"))
    with pytest.raises(NotInStoreError, match="no bucket"):
        ObjectStore(store.address, "nowhere", store.environ).list_objects(parse_source("s3://nowhere/llama"))


async def test_a_replica_fetches_says_how_far_it_is_and_starts(store, node, tmp_path, monkeypatch):
    one = _spec_for(store, monkeypatch, tmp_path)
    store.is_open.clear()
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "fetching")
        await asyncio.to_thread(store.is_open.set)
        await eventually(lambda: state_of(plane) == "ready", timeout_s=30)
    assert list(cached_weights(tmp_path / "hub")) == [wanted(store).key]


async def test_a_replica_starts_when_its_adapters_are_here_too(store, node, tmp_path, monkeypatch):
    one, tone = _spec_for(store, monkeypatch, tmp_path), wanted(store, f"s3://{BUCKET}/tone")
    adapted = structs.replace(
        one,
        lora_adapters={"tone": str(tone.source)},
        lora_revisions={"tone": tone.digest},
        lora_stores={"tone": tone.address},
    )
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(adapted)
        await eventually(lambda: state_of(plane) == "ready", timeout_s=30)
    assert set(cached_weights(tmp_path / "hub")) == {wanted(store).key, tone.key}
    assert (whole_directory(tmp_path / "hub", tone) / "adapter_model.safetensors").read_bytes() == b"a small adapter"


async def test_a_replica_whose_store_refuses_us_says_so_and_tries_again(store, node, tmp_path, monkeypatch):
    one = _spec_for(store, monkeypatch, tmp_path)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wr0ng")
    async with control_plane() as plane, agent(node, plane):
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "failed", timeout_s=30)
        assert "does not let us read" in plane.latest.replicas[0].detail
        assert "wr0ng" not in plane.latest.replicas[0].detail


async def test_a_download_that_nobody_waits_for_any_more_ends(store, node, tmp_path, monkeypatch):
    one = _spec_for(store, monkeypatch, tmp_path)
    store.is_open.clear()
    async with control_plane() as plane, agent(node, plane) as running:
        plane.desired = desired(one)
        await eventually(lambda: state_of(plane) == "fetching")
        plane.desired = desired(generation=2)
        await eventually(lambda: not running._care._fetches._tasks)


def _spec_for(store, monkeypatch, tmp_path):
    what = wanted(store)
    for name, value in store.environ.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    return structs.replace(spec(), source=str(what.source), revision=what.digest, store=what.address)


def test_who_may_read_gets_the_digest_by_the_command_line_too(store):
    module = "workers.agent.storage.store_fetching"
    command = [sys.executable, "-m", module, "--source", f"s3://{BUCKET}/llama", "--list"]
    told = msgspec.json.encode(store.address)
    environ = os.environ | store.environ
    done = subprocess.run(command, input=told, env=environ, capture_output=True, check=True, timeout=60)
    assert done.stdout.decode().strip() == wanted(store).digest

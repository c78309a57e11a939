import pytest
from msgspec import structs

from tests.support.specs import replica_spec
from workers.agent.storage.sources import (
    arrived_bytes,
    fetch_command,
    lie_here,
    source_of,
    sources_of,
    with_local_sources,
)
from workers.agent.storage.stored_weights import (
    local_spec,
    note_whole,
    part_directory,
    stored_keys,
    stored_weights_of,
    whole_directory,
)
from workers.contracts.stores import StoreAddress
from workers.engines.interface import SpecRefusedError

pytestmark = pytest.mark.unit

STORED = structs.replace(
    replica_spec(port=1), source="s3://models/llama 3/8b", revision="a" * 64, store=StoreAddress(name="ours")
)


def put(hub, spec=STORED, *files):
    wanted = stored_weights_of(spec)
    directory = whole_directory(hub, wanted)
    directory.mkdir(parents=True)
    for name in files:
        (directory / name).write_bytes(b"12345")
    note_whole(directory, wanted)
    return directory


def test_weights_are_known_by_the_version_s_key_when_all_of_them_are_here(tmp_path):
    source = source_of(STORED, {})
    assert not lie_here(tmp_path, source)
    directory = put(tmp_path)
    assert lie_here(tmp_path, source)
    assert stored_keys(tmp_path) == {f"s3://models/llama 3/8b@{'a' * 64}": directory}


def test_other_contents_and_other_prefixes_lie_elsewhere(tmp_path):
    others = [STORED, structs.replace(STORED, revision="b" * 64), structs.replace(STORED, source="s3://models-2/x/8b")]
    assert len({whole_directory(tmp_path, stored_weights_of(each)) for each in others}) == 3


def test_a_download_under_way_is_not_there_and_counts_as_arrived(tmp_path):
    source = source_of(STORED, {})
    part = part_directory(tmp_path, source) / "files"
    part.mkdir(parents=True)
    (part / "x").write_bytes(b"123")
    note_whole(part.parent, source)
    assert stored_keys(tmp_path) == {}
    assert arrived_bytes(tmp_path, source) >= 3


def test_every_engine_starts_from_a_path(tmp_path):
    directory = put(tmp_path, STORED, "b.gguf", "a-00001-of-00002.gguf")
    for engine, path in (("vllm", directory), ("fake", directory), ("llamacpp", directory / "a-00001-of-00002.gguf")):
        local = local_spec(structs.replace(STORED, engine=engine), tmp_path)
        assert (local.source, local.revision) == (str(path), "")


def test_what_llama_cpp_cannot_load_is_said(tmp_path):
    put(tmp_path, STORED, "model.safetensors")
    with pytest.raises(SpecRefusedError, match="no GGUF"):
        local_spec(structs.replace(STORED, engine="llamacpp"), tmp_path)


def test_a_spec_that_is_of_no_store_stays_as_it_is(tmp_path):
    assert local_spec(replica_spec(port=1), tmp_path) == replica_spec(port=1)


@pytest.mark.parametrize("change", [{"store": None}, {"revision": "main"}, {"source": "gs://b/x"}])
def test_a_spec_that_nobody_can_fetch_is_refused_when_it_is_started(tmp_path, change):
    spec = structs.replace(STORED, **change)
    assert source_of(spec, {}) is None
    with pytest.raises(SpecRefusedError):
        local_spec(spec, tmp_path)


def test_the_command_names_no_credentials_and_the_address_comes_by_standard_input(tmp_path):
    command = fetch_command(tmp_path, source_of(STORED, {}))
    assert "s3://models/llama 3/8b" in command.argv
    assert b"ours" in command.told


ADAPTED = structs.replace(
    STORED,
    lora_adapters={"tone": "s3://models/tone", "voice": "us/voice", "own": "/srv/own"},
    lora_revisions={"tone": "c" * 64, "voice": "d" * 40},
    lora_stores={"tone": StoreAddress(name="ours")},
)


def test_adapters_are_fetched_after_the_weights_and_a_path_is_not(tmp_path):
    weights, tone, voice = sources_of(ADAPTED, {})
    assert str(weights) == "s3://models/llama 3/8b"
    assert (tone.digest, voice.repository, voice.revision) == ("c" * 64, "us/voice", "d" * 40)


def test_an_engine_is_given_adapters_by_where_they_lie(tmp_path):
    put(tmp_path)
    local = with_local_sources(ADAPTED, tmp_path)
    _, tone, _ = sources_of(ADAPTED, {})
    assert local.lora_adapters == {
        "tone": str(whole_directory(tmp_path, tone)),
        "voice": str(tmp_path / "models--us--voice" / "snapshots" / ("d" * 40)),
        "own": "/srv/own",
    }


def test_an_adapter_of_a_store_that_nobody_knows_is_refused_when_the_engine_starts(tmp_path):
    lost = structs.replace(ADAPTED, lora_stores={})
    assert sources_of(lost, {}) == []
    with pytest.raises(SpecRefusedError, match="no object store with a bucket models"):
        with_local_sources(lost, tmp_path)

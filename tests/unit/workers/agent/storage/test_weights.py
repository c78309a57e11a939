import pytest

from workers.agent.storage.weights import cached_weights, free_disk_bytes, has_weights, hub_directory

pytestmark = pytest.mark.unit


def put(hub, repository, revision, size):
    snapshot = hub / repository / "snapshots" / revision
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"0" * size)


def test_weights_are_known_by_repository_and_by_revision(tmp_path):
    put(tmp_path, "models--meta-llama--Llama-3-8B", "abc", 7)
    assert cached_weights(tmp_path) == {"meta-llama/Llama-3-8B@abc": 7, "meta-llama/Llama-3-8B": 7}


def test_a_branch_or_tag_that_leads_to_a_revision_names_it_too(tmp_path):
    put(tmp_path, "models--a--b", "abc", 7)
    refs = tmp_path / "models--a--b/refs"
    (refs / "pr").mkdir(parents=True)
    (refs / "main").write_text("abc\n")
    (refs / "v2").write_text("another")
    (refs / "torn").write_bytes(b"\xff\x00")
    assert cached_weights(tmp_path) == {"a/b": 7, "a/b@abc": 7, "a/b@main": 7}
    assert not has_weights(tmp_path, "a/b", "torn")


def test_a_download_that_has_not_ended_is_not_there(tmp_path):
    put(tmp_path, "models--a--b", "abc", 7)
    (tmp_path / "models--a--b/blobs").mkdir()
    (tmp_path / "models--a--b/blobs/x.incomplete").touch()
    assert cached_weights(tmp_path) == {}


def test_the_directory_is_where_hugging_face_keeps_it(tmp_path):
    assert hub_directory({"HF_HOME": str(tmp_path)}) == tmp_path / "hub"
    assert hub_directory({"HF_HUB_CACHE": str(tmp_path)}) == tmp_path
    assert hub_directory({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "huggingface/hub"


def test_a_directory_that_is_not_there_yet_is_on_a_disk_all_the_same(tmp_path):
    assert free_disk_bytes(tmp_path / "not" / "yet") > 0
    assert cached_weights(tmp_path / "not") == {}

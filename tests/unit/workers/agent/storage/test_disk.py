import pytest

from workers.agent.storage.disk import WeightsDisk

pytestmark = pytest.mark.unit


def fetched(hub, repository):
    snapshot = hub / f"models--{repository.replace('/', '--')}" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "model.safetensors").write_bytes(b"1234567")


def test_what_was_fetched_since_is_seen_the_next_time_that_it_is_looked_up(tmp_path):
    disk = WeightsDisk(tmp_path)
    assert disk.sample(100.0).weights == {}
    fetched(tmp_path, "a/b")
    assert disk.sample(101.0).weights == {}
    assert disk.sample(130.0).weights == {"a/b": 7, "a/b@abc": 7}
    assert disk.sample(130.0).free_bytes > 0


def test_a_clock_that_was_set_back_keeps_nothing_from_being_seen(tmp_path):
    disk = WeightsDisk(tmp_path)
    disk.sample(1e9)
    fetched(tmp_path, "a/b")
    assert "a/b" in disk.sample(5.0).weights


def test_what_cannot_be_read_leaves_what_was_known(tmp_path, monkeypatch):
    fetched(tmp_path, "a/b")
    disk = WeightsDisk(tmp_path)
    known = disk.sample(0.0).weights

    def gone(_):
        raise FileNotFoundError

    monkeypatch.setattr("workers.agent.storage.disk.cached_weights", gone)
    assert disk.sample(100.0).weights == known

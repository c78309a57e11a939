from pathlib import Path

import pytest

from workers.compiled.selection import ROOT, build_key, list_sources, module_name

pytestmark = pytest.mark.unit


def test_the_scheduler_and_the_path_of_a_request_are_compiled():
    names = {module_name(source) for source in list_sources()}

    assert {"workers.scheduling.scheduler", "workers.scheduling.planning.plan", "workers.gateway.surface"} <= names


def test_peers_and_reports_are_not():
    names = {module_name(source) for source in list_sources()}

    assert not [name for name in names if name.startswith("workers.scheduling.peers")]
    assert "workers.gateway.metrics" not in names


def test_every_source_exists_and_comes_once():
    sources = list_sources()

    assert len(set(sources)) == len(sources)
    assert all((ROOT / source).is_file() for source in sources)


def test_a_build_is_for_exactly_the_sources_it_was_made_from(tmp_path: Path):
    module = tmp_path / "workers" / "scheduling" / "queue.py"
    module.parent.mkdir(parents=True)
    module.write_text("SLOTS = 1\n")
    before = build_key(tmp_path)

    module.write_text("SLOTS = 2\n")
    after = build_key(tmp_path)
    module.write_text("SLOTS = 1\n")

    assert before != after
    assert before == build_key(tmp_path)


def test_a_module_whose_types_are_relied_on_counts_too(tmp_path: Path):
    before = build_key(tmp_path)
    contract = tmp_path / "workers" / "contracts" / "usage.py"
    contract.parent.mkdir(parents=True)
    contract.write_text("")

    assert build_key(tmp_path) != before

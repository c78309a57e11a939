import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from workers.compiled.finder import MARKER, CompiledFinder, prefer_compiled
from workers.compiled.selection import build_directory

pytestmark = pytest.mark.unit


@pytest.fixture
def build(tmp_path: Path) -> Path:
    """One that is there for the present sources, with one module."""
    directory = build_directory(tmp_path)
    module = directory / "workers" / "scheduling" / f"scheduler{EXTENSION_SUFFIXES[0]}"
    module.parent.mkdir(parents=True)
    module.touch()
    (directory / MARKER).touch()
    return directory


@pytest.fixture(autouse=True)
def _finders_as_before(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


def test_a_compiled_module_is_found_by_its_name(build: Path):
    spec = CompiledFinder(build).find_spec("workers.scheduling.scheduler", None)

    assert spec is not None
    assert spec.origin == str(build / "workers" / "scheduling" / f"scheduler{EXTENSION_SUFFIXES[0]}")


def test_any_other_module_is_left_to_python(build: Path):
    assert CompiledFinder(build).find_spec("workers.scheduling.pool", None) is None


def test_a_whole_build_for_these_sources_is_preferred(build: Path, tmp_path: Path):
    assert prefer_compiled(tmp_path, {})
    assert isinstance(sys.meta_path[0], CompiledFinder)


def test_a_build_that_was_broken_off_is_not(build: Path, tmp_path: Path):
    (build / MARKER).unlink()

    assert not prefer_compiled(tmp_path, {})


def test_without_a_build_nothing_changes(tmp_path: Path):
    before = list(sys.meta_path)

    assert not prefer_compiled(tmp_path, {})
    assert sys.meta_path == before


@pytest.mark.parametrize("off", ["off", "OFF", "0", "no", "false"])
def test_the_environment_can_forbid_it(build: Path, tmp_path: Path, off: str):
    assert not prefer_compiled(tmp_path, {"TOKENYARD_COMPILED": off})

from pathlib import Path

import pytest

from workers.compiled import build as building
from workers.compiled.finder import MARKER


def test_sources_that_change_while_they_are_copied_are_not_kept_under_the_old_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path / "root"
    (root / "workers" / "gateway").mkdir(parents=True)
    module = root / "workers" / "gateway" / "one.py"
    module.write_text("A = 1\n")

    def edit(_: str) -> None:
        module.write_text("A = 2\n")

    monkeypatch.setattr(building, "_require_compiler", lambda: None)
    monkeypatch.setattr(building, "_run", lambda *_: pytest.fail("nothing is compiled"))

    with pytest.raises(building.BuildFailedError, match="changed while"):
        building.build(tmp_path / "cache", edit, root)

    assert not list((tmp_path / "cache").rglob(MARKER))

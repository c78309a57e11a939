import pytest

from workers.agent.release import release_of

pytestmark = pytest.mark.unit


def test_a_release_is_its_source_wherever_it_lies(tmp_path):
    for name in ("one", "two"):
        (tmp_path / name / "inner").mkdir(parents=True)
        (tmp_path / name / "inner" / "part.py").write_text("x = 1\n")
    before = release_of(tmp_path / "one")
    assert before == release_of(tmp_path / "two")
    (tmp_path / "one" / "inner" / "part.py").write_text("x = 2\n")
    assert release_of(tmp_path / "one") != before
    (tmp_path / "two" / "inner" / "part.py").rename(tmp_path / "two" / "part.py")
    assert release_of(tmp_path / "two") != before

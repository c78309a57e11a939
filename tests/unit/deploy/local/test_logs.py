import pytest

from deploy.local import logs

pytestmark = pytest.mark.unit


def add(path, text):
    with path.open("a") as file:
        file.write(text)


def test_a_line_is_shown_when_it_is_whole(tmp_path):
    log = tmp_path / "web.log"
    add(log, "half ")
    follower = logs.Follower(log, from_start=True)
    assert follower.new_lines() == []
    add(log, "and half\nnext")
    assert follower.new_lines() == ["half and half"]


def test_following_starts_with_what_is_added(tmp_path):
    log = tmp_path / "web.log"
    add(log, "old\n")
    follower = logs.Follower(log, from_start=False)
    add(log, "new\n")
    assert follower.new_lines() == ["new"]


def test_a_log_that_appears_later_is_followed_from_its_start(tmp_path):
    follower = logs.DirectoryFollower(tmp_path, has_colour=False)
    add(tmp_path / "web.log", "hello\n")
    assert list(follower.new_lines()) == ["web        │ hello"]


def test_a_log_that_grows_too_long_is_set_aside_and_followed_on(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "MAX_LOG_BYTES", 10)
    log = tmp_path / "web.log"
    add(log, "a long line\n")
    follower = logs.Follower(log, from_start=False)
    logs.rotate(tmp_path)
    add(log, "new\n")
    assert follower.new_lines() == ["new"]
    assert (tmp_path / "web.log.1").read_text() == "a long line\n"


def test_bytes_that_are_no_text_are_shown_as_such(tmp_path):
    (tmp_path / "web.log").write_bytes(b"\xff\n")
    assert logs.tail(tmp_path / "web.log", 5) == ["\ufffd"]


def test_a_prefix_has_colour_only_on_a_terminal():
    assert logs.prefix("web", has_colour=False) == "web        │ "
    assert logs.prefix("web", has_colour=True).startswith("\x1b[")

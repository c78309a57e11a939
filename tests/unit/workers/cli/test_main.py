import errno
import json
import signal

import pytest

from workers.cli import main as programme
from workers.cli.commands import getting
from workers.cli.kinds import find_kind

pytestmark = pytest.mark.unit

EVENTS = [("ADDED", {"id": "1", "name": "n1"}), ("BOOKMARK", {}), ("DELETED", {"id": "1"})]


class Watched:
    """A client whose line brings these events."""

    def events(self, path, **query):
        return iter(EVENTS)


@pytest.fixture
def restored():
    before = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, before)


def test_who_ends_it_by_ctrl_c_is_told_so_by_the_usual_code(monkeypatch, restored):
    monkeypatch.setattr(programme, "cli", lambda **_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(SystemExit) as ended:
        programme.main()
    assert ended.value.code == 130


def test_a_full_disk_is_an_error_in_one_line(monkeypatch, capsys, restored):
    def cli(**_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(programme, "cli", cli)
    with pytest.raises(SystemExit) as ended:
        programme.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err == "Error: the answer cannot be written: No space left on device\n"


@pytest.mark.parametrize(("has_old", "expected"), [(True, ["ADDED", "DELETED"]), (False, ["DELETED"])])
def test_what_is_watched_as_json_is_a_document_for_each_change_and_nothing_else(capsys, has_old, expected):
    getting._watch(Watched(), (find_kind("nodes"), []), "json", {}, has_old=has_old)
    decoder, text, found = json.JSONDecoder(), capsys.readouterr().out, []
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        found.append(document["type"])
        text = text[end:]
    assert found == expected

import pytest

from workers.cli.commands.watching import new_lines
from workers.cli.errors import CONFLICT, FAILED, INVALID, NOT_ALLOWED, NOT_FOUND, CLIError, code_of
from workers.cli.finding import one_of, split_name
from workers.cli.kinds import KINDS, find_kind
from workers.cli.output import show_rows, text_of

pytestmark = pytest.mark.unit

NODE = {
    "id": "01a2", "name": "n1", "state": "online", "is_cordoned": True, "is_draining": False, "is_lost": False,
    "labels": {"zone": "a"}, "accelerators": [{"kind": "gpu", "model": "H100", "name": "NVIDIA H100"}] * 2,
    "created_at": None, "last_seen_at": None, "gateway_url": "http://n1", "agent_version": "1",
}  # fmt: skip


def test_a_table_shows_what_people_look_for(capsys):
    show_rows(find_kind("node"), [NODE], "table")
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.split() == ["NAME", "STATE", "GPUS", "SEEN", "LABELS", "AGE"]
    assert line.split() == ["n1", "online,cordoned", "2xH100", "–", "zone=a", "–"]


def test_names_can_be_passed_on(capsys):
    show_rows(find_kind("nodes"), [NODE], "name")
    assert capsys.readouterr().out == "nodes/n1\n"


def test_what_another_wrote_cannot_command_the_terminal():
    assert text_of("a\x1b[2Jb\nc") == "a [2Jb c"
    assert (text_of(None), text_of(True), text_of("x" * 100)[-1]) == ("–", "yes", "…")


def test_things_are_named_in_two_ways():
    assert split_name(("deploy/chat",)) == (find_kind("deployments"), ["chat"])
    assert split_name(("nodes", "n1", "n2"))[1] == ["n1", "n2"]
    assert one_of(("tenant/acme/search",)) == (find_kind("tenants"), "acme/search")
    with pytest.raises(CLIError, match="name one"):
        one_of(("nodes",))
    with pytest.raises(CLIError, match="no kind 'spaceships'"):
        split_name(("spaceships",))


def test_no_word_means_two_kinds():
    words = [word for kind in KINDS for word in (kind.name, *kind.short)]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("shown", "now", "new"),
    [([], ["a", "b"], ["a", "b"]), (["a", "b"], ["b", "c"], ["c"]), (["a"], ["a"], []), (["a"], ["x"], ["x"])],
)
def test_of_two_tails_only_what_is_new_is_told(shown, now, new):
    assert new_lines(shown, now) == new


def test_exit_codes_say_what_kind_of_failure_it_was():
    found = [code_of(status) for status in (400, 403, 404, 412, 500)]
    assert found == [INVALID, NOT_ALLOWED, NOT_FOUND, CONFLICT, FAILED]

import tomllib
from pathlib import Path

import pytest

from workers.cli import VERSION
from workers.cli.commands.watching import new_lines
from workers.cli.errors import CONFLICT, FAILED, INVALID, NOT_ALLOWED, NOT_FOUND, CLIError, code_of
from workers.cli.finding import one_of, split_names
from workers.cli.kinds import KINDS, find_kind
from workers.cli.output import ChangingTable, show_rows, sorted_rows, text_of

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
    assert text_of({"on": ["gpu", None]}) == '{"on": ["gpu", null]}'


def test_that_there_is_nothing_is_said_beside_the_output(capsys):
    show_rows(find_kind("nodes"), [], "table")
    assert tuple(capsys.readouterr()) == ("", "no nodes\n")


def test_rows_are_sorted_by_a_field_within_a_field_and_what_is_unknown_comes_last():
    rows = [{"id": 1, "use": {"of": 10}}, {"id": 2, "use": {"of": None}}, {"id": 3, "use": {"of": 9}}]
    assert [row["id"] for row in sorted_rows(rows, "use.of")] == [3, 1, 2]
    with pytest.raises(CLIError, match="no field"):
        sorted_rows(rows, "use.for")


def test_what_is_watched_stays_under_its_headings_and_what_is_gone_is_named(capsys):
    table = ChangingTable(find_kind("nodes"), "table", has_heading=True)
    table.note("ADDED", NODE)
    table.note("ADDED", NODE | {"id": "01a3", "name": "a-longer-name"})
    table.show_first()
    table.note("MODIFIED", NODE | {"is_cordoned": False})
    table.note("DELETED", {"id": "01a3"})
    heading, *lines, gone = capsys.readouterr().out.splitlines()
    assert [line.index("online") for line in lines] == [heading.index("STATE")] * 3
    assert gone == "gone: nodes/a-longer-name"


def test_things_are_named_in_several_ways():
    assert split_names(("deploy/chat",)) == [(find_kind("deployments"), ["chat"])]
    assert split_names(("nodes", "n1", "n2")) == [(find_kind("nodes"), ["n1", "n2"])]
    assert split_names(("nodes,rep",)) == [(find_kind("nodes"), []), (find_kind("replicas"), [])]
    assert [names for _, names in split_names(("deploy/chat", "node/n1"))] == [["chat"], ["n1"]]
    assert one_of(("tenant/acme/search",)) == one_of(("tenant", "acme/search")) == (find_kind("tenants"), "acme/search")


@pytest.mark.parametrize(
    ("words", "said"),
    [(["nodes"], "name one"), (["spaceships"], "no kind 'spaceships'"), (["nodes,keys", "n1"], "several kinds")],
)
def test_what_names_nothing_is_refused(words, said):
    with pytest.raises(CLIError, match=said):
        one_of(words)


def test_no_word_means_two_kinds():
    words = [word for kind in KINDS for word in (kind.name, *kind.short)]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(
    ("shown", "now", "new"),
    [([], ["a", "b"], ["a", "b"]), (["a", "b"], ["b", "c"], ["c"]), (["a"], ["a"], []), (["a"], ["x"], ["x"])],
)
def test_of_two_tails_only_what_is_new_is_told(shown, now, new):
    assert new_lines(shown, now) == new


def test_it_says_the_version_of_the_package():
    assert tomllib.loads(Path("pyproject.toml").read_text())["project"]["version"] == VERSION


def test_exit_codes_say_what_kind_of_failure_it_was():
    found = [code_of(status) for status in (400, 403, 404, 412, 500)]
    assert found == [INVALID, NOT_ALLOWED, NOT_FOUND, CONFLICT, FAILED]

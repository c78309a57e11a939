import pytest

from apps.rest.policies.conditions import is_unchanged, matches, tag_of
from apps.rest.policies.diffing import differences, without_shown_once
from apps.rest.policies.idempotency import key_digest, key_problem, request_digest
from apps.rest.policies.positions import Position, read_position

pytestmark = pytest.mark.unit


def test_if_match_looks_only_at_what_people_set():
    seen = tag_of({"labels": {}, "state": "online"}, {"state"})
    now = tag_of({"labels": {}, "state": "offline"}, {"state"})
    other = tag_of({"labels": {"a": "b"}, "state": "online"}, {"state"})
    assert (matches(seen, now), matches(seen, other)) == (True, False)
    assert (is_unchanged(seen, seen), is_unchanged(seen, now)) == (True, False)


@pytest.mark.parametrize("header", ["*", 'W/""', '"", "abc"'])
def test_what_is_sent_without_a_tag_is_never_taken_for_unchanged(header):
    assert not is_unchanged(header, "")


def test_the_order_of_names_makes_no_other_tag():
    assert tag_of({"a": 1, "b": 2}) == tag_of({"b": 2, "a": 1})


@pytest.mark.parametrize(
    ("header", "current", "is_let_through"),
    [
        ("*", '"a.b"', True),
        ("*", "", False),
        ('"x.y", "a.c"', '"a.b"', True),
        ("nonsense", '"a.b"', False),
        ("", "", False),
    ],
)
def test_what_if_match_lets_through(header, current, is_let_through):
    assert matches(header, current) is is_let_through


def test_differences_are_by_field_and_a_new_thing_differs_in_all():
    assert differences({"a": {"x": 1, "y": 2}, "b": [1]}, {"a": {"x": 1, "z": 3}, "b": [1]}) == [
        {"field": "a.y", "from": 2, "to": None},
        {"field": "a.z", "from": None, "to": 3},
    ]
    assert differences(None, {"a": 1}) == [{"field": "a", "from": None, "to": 1}]
    assert differences({"a": 1}, None) == [{"field": "", "from": {"a": 1}, "to": None}]


def test_what_is_shown_once_is_not_shown_by_a_dry_run():
    assert without_shown_once({"id": 1, "token": "tys-1", "key": "ty-1"}) == {"id": 1}


def test_keys_are_of_one_asker_and_requests_differ_by_all_they_are_made_of():
    assert key_digest("k", "user:1") != key_digest("k", "user:2")
    parts = [
        ("POST", "/a", b"{}"),
        ("PUT", "/a", b"{}"),
        ("POST", "/b", b"{}"),
        ("POST", "/a", b"[]"),
        ("POST/a", "", b"{}"),
    ]
    assert len({request_digest(*each) for each in parts}) == len(parts)
    assert key_problem("k" * 255) == ""
    assert all(key_problem(key) for key in ("", "é", "k" * 256))


def test_positions_are_read_as_they_are_written_and_order_by_transaction():
    assert read_position(str(Position(7, 3))) == Position(7, 3)
    assert Position(7, 9) < Position(8, 1)
    assert [read_position(text) for text in ("", "7", "7-", "-1-2", "9223372036854775808-1")] == [None] * 5

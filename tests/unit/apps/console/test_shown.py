import pytest

from apps.console.policies.shown import MAX_KEYS, Shown, read_keys

pytestmark = pytest.mark.unit


def test_a_page_that_has_named_nothing_is_told_nothing():
    assert Shown().changes({"a": 1}.get) == {}


def test_a_value_is_told_once_and_again_when_it_has_changed():
    shown = Shown()
    shown.ask(["a", "b"])
    assert shown.changes({"a": 1, "b": 2, "c": 3}.get) == {"a": 1, "b": 2}
    assert shown.changes({"a": 1, "b": 2}.get) == {}
    assert shown.changes({"a": 1, "b": 5}.get) == {"b": 5}


def test_a_page_that_names_its_keys_again_is_told_all_of_them():
    shown = Shown()
    shown.ask(["a"])
    shown.changes({"a": 1}.get)
    shown.ask(["a"])
    assert shown.changes({"a": 1}.get) == {"a": 1}


def test_a_page_names_a_bounded_number_of_keys():
    shown = Shown()
    shown.ask([str(number) for number in range(MAX_KEYS + 1)])
    assert len(shown.changes(lambda key: key)) == MAX_KEYS


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"show": {}}', '{"show": ["a", 1]}', "[" * 100_000])
def test_what_is_no_list_of_keys_names_none(text):
    assert read_keys(text) is None


def test_keys_are_read():
    assert read_keys('{"show": ["node.1.state"]}') == ["node.1.state"]

import pytest

from tests.support.html import Page

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        "<p onclick='x()'>",
        "<p style='color: red'>",
        "<style>p {}</style>",
        "<script src='//cdn.example/x.js'></script>",
        "<a href='javascript:x()'>",
    ],
)
def test_what_a_strict_policy_refuses_is_found(text):
    assert Page(text).problems


def test_a_field_is_named_by_a_label_around_it_or_for_it_or_by_itself():
    named = "<label>Name<input></label><label for='a'>A</label><input id='a'><input aria-label='B'>"
    assert Page(named).nameless_fields == []
    assert Page("<label>Name</label><input name='c'>").nameless_fields == [{"name": "c"}]

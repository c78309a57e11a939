"""A request's body as a person reads it."""

import json

import pytest

from apps.console.policies.prompts import Part, parts_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        ({"messages": [{"role": "user", "content": "Hello"}]}, [Part("user", "Hello")]),
        (
            {"system": "Be kind.", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]},
            [Part("system", "Be kind."), Part("user", "Hi")],
        ),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, [Part("user", "[image_url]")]),
        ({"instructions": "Short.", "input": "Why?"}, [Part("instructions", "Short."), Part("input", "Why?")]),
        ({"input": ["one", "two"]}, [Part("input", "one"), Part("input", "two")]),
        ({"prompt": ["a", "b"]}, [Part("prompt", "a\nb")]),
        ({"model": "m"}, [Part("body", '{"model": "m"}')]),
    ],
)
def test_who_said_what_is_told(asked, parts):
    assert parts_of(json.dumps(asked)) == parts


def test_a_body_that_was_cut_is_shown_as_it_is():
    assert parts_of('{"messages": [{"role"') == [Part("body", '{"messages": [{"role"')]


ODD: list[object] = [
    None,
    0,
    True,
    "",
    [],
    {},
    [None],
    [[]],
    [{}],
    [{"role": None}],
    {"content": 1},
    [{"role": 1, "content": None}],
]


@pytest.mark.parametrize("name", ["messages", "input", "prompt", "system", "instructions"])
def test_whatever_a_client_sent_can_be_shown(name):
    shown = [parts_of(json.dumps({name: odd})) for odd in [*ODD, [{"content": odd} for odd in ODD]]]
    assert all(isinstance(part.speaker, str) and isinstance(part.text, str) for parts in shown for part in parts)

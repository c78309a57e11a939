"""Where blocks of a prompt's text end among its tokens."""

import json
import re

import pytest

from workers.gateway.kv_events import alignment
from workers.gateway.kv_events.alignment import align, align_ids

pytestmark = pytest.mark.unit

STORY = "\n".join(
    f'Chapter {number}: "{number * 7919 % 1000}" said the captain \\ and wrote it down.' for number in range(60)
)


def tokens_of(text):
    return re.findall(r" ?[A-Za-z]+|[0-9]|\s|[^\sA-Za-z0-9]", text)


def shown(tokens):
    """As a byte-level tokeniser does, a character for each byte."""
    characters = {byte: character for character, byte in alignment._BYTE_OF.items()}
    return ["".join(characters[bytes([byte])] for byte in token.encode()) for token in tokens]


def as_chat(*messages):
    body = json.dumps([{"role": role, "content": content} for role, content in messages]).encode()
    template = "".join(f"<|im_start|>{role}\n{content}<|im_end|>\n" for role, content in messages)
    return body, template + "<|im_start|>assistant\n"


def place_in(template, body, end):
    """Where the user's text has got to."""
    begin = body.index(b'"content": "', body.index(b'"user"')) + len(b'"content": "')
    so_far = json.loads(b'"' + body[begin:end] + b'"').encode()
    return template.encode().index(b"Chapter 0") + len(so_far)


@pytest.mark.parametrize("story", [STORY, "naïve «words» " * 400, "🦭 and " * 600])
def test_the_end_of_a_block_is_found_though_json_is_longer_than_the_text(story):
    body, template = as_chat(("system", "Be brief."), ("user", f"Chapter 0 {story}"))
    tokens = tokens_of(template)
    ends = [end for end in range(512, len(body) - 3, 512) if b"\\" not in body[end - 12 : end]]
    longest = max(len(token.encode()) for token in tokens)
    for end, count in zip(ends, align(body, ends, shown(tokens)), strict=True):
        behind = place_in(template, body, end) - len("".join(tokens[:count]).encode())
        assert 0 <= behind < longest


@pytest.mark.parametrize("story", ["x" * 5000, "same again and " * 300])
def test_in_a_text_that_repeats_itself_it_is_found_by_distance(story):
    body, template = as_chat(("system", "Be brief."), ("user", f"Chapter 0 {story}"))
    tokens = list(template)
    ends = list(range(512, len(body) - 3, 512))
    for end, count in zip(ends, align(body, ends, shown(tokens)), strict=True):
        assert abs(place_in(template, body, end) - count) < 40


def test_tokens_with_sentencepieces_space_are_found_too():
    body, template = as_chat(("system", "Be brief."), ("user", f"Chapter 0 {STORY}"))
    tokens = tokens_of(template)
    by_bytes = align(body, [2048], shown(tokens))
    assert align(body, [2048], [token.replace(" ", "▁") for token in tokens]) == by_bytes


def test_a_tokeniser_that_shows_something_else_is_followed_by_distance():
    body, _ = as_chat(("user", STORY))
    [count] = align(body, [1024], ["?" * 4] * 1000)
    assert 230 < count <= 256


def test_blocks_that_two_prompts_share_are_the_same_tokens_in_both():
    one, first = as_chat(("system", STORY), ("user", "And then?"))
    other, second = as_chat(("system", STORY), ("user", "And what else is there to be said about it, sir?" * 40))
    shared = len(STORY) // 512 * 512
    ends = list(range(512, shared, 512))
    counts = align(one, ends, shown(tokens_of(first)))
    assert counts == align(other, ends, shown(tokens_of(second)))
    assert tokens_of(first)[: counts[-1]] == tokens_of(second)[: counts[-1]]


def test_ends_only_grow_and_never_pass_the_last_token():
    body = json.dumps("ab" * 3000).encode()
    counts = align(body, list(range(512, len(body), 512)), ["ab"] * 100)
    assert counts == sorted(counts)
    assert counts[-1] <= 100


def test_a_text_without_tokens_has_none():
    assert align(b"x" * 600, [512], []) == [0]


def test_token_ids_are_counted():
    assert align_ids(b"[101, 2002, 30003, 4]", [6, 12, 21]) == [1, 2, 3]

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.gateway.attempts.combining import combine, read_inputs, shares_of, split

pytestmark = pytest.mark.unit


def body(wanted, **fields):
    return json.dumps({"model": "m", "input": wanted} | fields).encode()


def answer(*vectors, prompt_tokens=10):
    items = b",".join(b'{"object":"embedding","index":%d,"embedding":%b}' % pair for pair in enumerate(vectors))
    usage = b'{"prompt_tokens":%d,"total_tokens":%d,"prompt_tokens_details":{"cached_tokens":3}}'
    usage %= (prompt_tokens, prompt_tokens)
    return b'{"id":"e-1","object":"list","data":[' + items + b'],"model":"m","usage":' + usage + b"}"


@pytest.mark.parametrize(
    ("wanted", "kind", "items", "weights"),
    [
        ("a text", "text", [b'"a text"'], [8]),
        (["one", "three"], "text", [b'"one"', b'"three"'], [5, 7]),
        ([1, 2, 3], "tokens", [b"[1, 2, 3]"], [3]),
        ([[1, 2], [3]], "tokens", [b"[1, 2]", b"[3]"], [2, 1]),
    ],
)
def test_every_form_of_input_is_understood(wanted, kind, items, weights):
    found = read_inputs(body(wanted))
    assert (found.kind, [bytes(item) for item in found.items], found.weights) == (kind, items, weights)


@pytest.mark.parametrize(
    "unsound",
    [
        body([]), body(None), body({"text": "x"}), body(["a", 1]), body([["a"]]), body([[]]), body([1.5]), body(3),
        b'{"model":"m"}', b"[]", b"\xff\xfe{", b"", b'{"input":"a"', b'{"input":' + b"[" * 5000,
    ],
)  # fmt: skip
def test_what_is_not_understood_goes_alone(unsound):
    assert read_inputs(unsound) is None


def test_requests_with_the_same_parameters_may_share_a_call_whoever_sends_them():
    one, other = read_inputs(body("a", user="u", dimensions=8)), read_inputs(body(["b"], dimensions=8, user="w"))
    assert one.key == other.key
    assert json.loads(combine([one, other])) == {"model": "m", "dimensions": 8, "input": ["a", "b"]}


@pytest.mark.parametrize("other", [body("b", dimensions=9), body("b"), body([1], dimensions=8)])
def test_requests_that_differ_in_anything_else_do_not(other):
    assert read_inputs(body("a", dimensions=8)).key != read_inputs(other).key


def test_each_gets_its_own_vectors_to_the_byte_numbered_from_nought():
    requests = [read_inputs(body(["a", "b"])), read_inputs(body("c"))]
    first, second = split(answer(b"[0.10,1E-2]", b'"AAAA"', b"[3.000]"), requests)
    assert b'"index":0,"embedding":[0.10,1E-2]}' in first
    assert b'"index":1,"embedding":"AAAA"}' in first
    assert b'"data":[{"object":"embedding","index":0,"embedding":[3.000]}]' in second
    assert json.loads(first)["id"] == json.loads(second)["id"] == "e-1"


def test_what_came_out_of_order_is_put_in_order():
    turned = b'{"data":[{"index":1,"embedding":[2]},{"index":0,"embedding":[1]}],"usage":{"prompt_tokens":2}}'
    one, two = split(turned, [read_inputs(body("a")), read_inputs(body("b"))])
    assert (json.loads(one)["data"][0]["embedding"], json.loads(two)["data"][0]["embedding"]) == ([1], [2])


def test_token_ids_are_counted_exactly_and_what_is_told_of_the_whole_is_told_to_nobody():
    requests = [read_inputs(body([1, 2, 3])), read_inputs(body([[4], [5, 6, 7, 8, 9, 10]]))]
    usages = [json.loads(part)["usage"] for part in split(answer(b"[1]", b"[2]", b"[3]"), requests)]
    assert usages == [{"prompt_tokens": 3, "total_tokens": 3}, {"prompt_tokens": 7, "total_tokens": 7}]


@pytest.mark.parametrize(
    "unsound",
    [
        b"", b"[]", b"{}", answer(b"[1]"), answer(b"[1]", b"[2]", b"[3]"), answer(b"[1]", b"[2]")[:-3],
        b'{"data":[{"index":0},{"index":0}],"usage":{"prompt_tokens":2}}',
        b'{"data":[{"index":0},{"index":"x"}],"usage":{"prompt_tokens":2}}',
        b'{"data":[{"index":0},{"index":1}],"usage":null}',
    ],
)  # fmt: skip
def test_an_answer_to_something_else_is_nobodys(unsound):
    assert split(unsound, [read_inputs(body("a")), read_inputs(body("b"))]) is None


@given(total=st.integers(0, 10**6), weights=st.lists(st.integers(0, 1000), min_size=1, max_size=40))
def test_shares_add_up_and_none_is_negative(total, weights):
    shares = shares_of(total, weights)
    assert sum(shares) == total
    assert min(shares) >= 0

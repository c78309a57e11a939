import io
import json

import pytest

from workers.gateway.batches.lines import (
    MAX_CUSTOM_ID,
    MAX_ERRORS_SHOWN,
    MAX_ITEMS,
    MAX_LINE_BYTES,
    InputCheck,
    answer_line,
    error_line,
    item_at,
    read_lines,
)

pytestmark = pytest.mark.unit

URL = "/v1/completions"


def check(content: bytes, models=("m",)):
    found = InputCheck(URL, models.__contains__)
    file = io.BytesIO(content)
    while lines := read_lines(file):
        found.check_all(lines)
    found.finish()
    return found


def line(custom_id="a", body=b'{"model":"m"}', url=URL):
    return b'{"custom_id":%b,"method":"POST","url":"%b","body":%b}' % (
        json.dumps(custom_id).encode(),
        url.encode(),
        body,
    )


def test_good_lines_are_found_where_they_stand():
    content = b"\n" + line("a") + b"\r\n\n" + line("b")
    found = check(content)
    assert found.errors == []
    cut = [content[place.start : place.start + place.length_bytes] for place in found.places]
    assert [item_at(place, piece).custom_id for place, piece in zip(found.places, cut, strict=True)] == ["a", "b"]


def test_a_body_keeps_its_bytes():
    body = b'{"model":"m", "seed":1e400,"x":12345678901234567890123,  "x":"\\u00e9"}'
    [place] = check(line(body=body)).places
    assert item_at(place, line(body=body)).body == body


def test_what_only_python_reads_is_sent_as_it_writes_it():
    content = line(body=b'{"model":"m","temperature":NaN}')
    [place] = check(content).places
    assert item_at(place, content).body == b'{"model": "m", "temperature": NaN}'


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"{", "invalid_json_line"),
        (b"[1]", "invalid_json_line"),
        (b"[" * 100_000, "invalid_json_line"),
        (b"\xff", "invalid_json_line"),
        (b'{"custom_id":1}', "missing_required_parameter"),
        (line("x" * (MAX_CUSTOM_ID + 1)), "missing_required_parameter"),
        (line(url="/v1/chat/completions"), "invalid_url"),
        (line(body=b"null"), "invalid_request"),
        (line(body=b'"text"'), "invalid_request"),
        (line(body=b'{"model":"other"}'), "model_not_found"),
        (line(body=b'{"model":"m","stream":1}'), "invalid_request"),
        (b"", "empty_file"),
        (b" \n\n", "empty_file"),
    ],
    ids=repr,
)
def test_what_is_wrong_is_told(content, code):
    [error] = check(content).errors
    assert error.code == code


def test_errors_are_bounded_and_each_names_its_line():
    found = check(b"{\n" * 500)
    assert [error.line for error in found.errors] == list(range(1, MAX_ERRORS_SHOWN + 1))


def test_no_more_lines_are_kept_than_a_batch_may_have():
    found = check(b"".join(line(str(number)) + b"\n" for number in range(MAX_ITEMS + 50)))
    assert [error.code for error in found.errors] == ["too_many_tasks"]
    assert len(found.places) == MAX_ITEMS + 1


def test_a_line_without_an_end_is_not_read_to_its_end():
    content = io.BytesIO(line("a") + b"\n" + b"x" * (2 * MAX_LINE_BYTES))
    found = InputCheck(URL, lambda _: True)
    found.check_all(read_lines(content))
    assert found.is_over
    assert [(error.code, error.line) for error in found.errors] == [("line_too_long", 2)]
    assert content.tell() < len(content.getvalue()) - MAX_LINE_BYTES // 2


def test_an_answer_is_one_line_whatever_the_engine_sent():
    for body in (b'{\n  "a": "b\\n"\r\n}\n', b"Internal\nServer Error", b"", b"\xff"):
        encoded = answer_line("i", "c", status=500, request_id="r", body=body)
        assert encoded.count(b"\n") == 1
        assert b"\r" not in encoded
        assert json.loads(encoded)["response"]["status_code"] == 500
    assert json.loads(answer_line("i", "c", status=200, request_id="r", body=b'{"a":1e400}'))["response"]["body"]


def test_an_answer_in_json_keeps_its_bytes():
    body = b'{"a":1.0,"b":"\\u00e9","a":12345678901234567890}'
    assert body in answer_line("i", "c", status=200, request_id="r", body=body)


def test_what_clients_take_for_an_end_of_a_line_stands_in_none():
    written = answer_line(
        "i", "a\u2028", status=200, request_id="r", body=b'{"a":"\xe2\x80\xa9 \xc2\x85 \xe2\x80\xa6"}'
    )
    [only] = written.decode().splitlines()
    assert json.loads(only)["custom_id"] == "a\u2028"
    assert json.loads(only)["response"]["body"] == {"a": "\u2029 \x85 \u2026"}


def test_an_item_that_never_ran_has_an_error_and_no_response():
    shown = json.loads(error_line("i", "c", code="batch_expired", message="late"))
    assert shown == {
        "id": "i",
        "custom_id": "c",
        "response": None,
        "error": {"code": "batch_expired", "message": "late"},
    }

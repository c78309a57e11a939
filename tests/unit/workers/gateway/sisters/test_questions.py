import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.gateway.errors import GatewayError
from workers.gateway.http.request_heads import read_head
from workers.gateway.http.requests import HttpRequest
from workers.gateway.payload.bodies import peek
from workers.gateway.sisters.questions import model_in, model_of

pytestmark = pytest.mark.unit


def request(body, *, method="POST", path="/v1/chat/completions", content_type="application/json"):
    head = read_head(f"{method} {path} HTTP/1.1\r\nhost: h\r\ncontent-type: {content_type}\r\n\r\n".encode())
    return HttpRequest(head, body, 0.0, keeps_alive=True)


@given(st.dictionaries(st.text(), st.one_of(st.text(), st.floats(), st.none(), st.lists(st.integers()))), st.text())
def test_it_names_the_model_that_the_request_is_routed_by_later(fields, model):
    body = json.dumps(fields | {"model": model}).encode()
    try:
        expected = peek(body).model
    except GatewayError:
        expected = ""
    assert model_in(body) == expected


@given(st.binary(max_size=200))
def test_what_is_no_question_names_none(body):
    assert isinstance(model_in(body), str)


def test_only_what_goes_to_an_engine_names_one():
    body = b'{"model":"m"}'
    assert model_of(request(body)) == "m"
    assert model_of(request(body, method="GET")) == ""
    assert model_of(request(body, path="/v1/batches")) == ""
    assert model_in(b'{"model":7}') == ""
    assert model_in(b'{"a":NaN,"model":"m"}') == "m"
    assert model_in(b"[" * 100_000) == ""


def test_a_form_names_it_in_a_field():
    body = b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nwhisper\r\n--b--\r\n'
    form = {"path": "/v1/audio/transcriptions", "content_type": "multipart/form-data; boundary=b"}
    assert model_of(request(body, **form)) == "whisper"
    assert model_of(request(b"nothing", **form)) == ""

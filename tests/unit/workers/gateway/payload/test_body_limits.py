import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.gateway.errors import GatewayError
from workers.gateway.payload.body_limits import MAX_DEPTH, MAX_MESSAGES, check_body

pytestmark = pytest.mark.unit

NOBODY: frozenset[str] = frozenset()


def body(*parts, **fields):
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": list(parts)}]} | fields).encode()


def image(address):
    return {"type": "image_url", "image_url": {"url": address}}


def refusal(content, media_hosts=NOBODY):
    with pytest.raises(GatewayError) as refused:
        check_body(content, media_hosts)
    assert refused.value.status == 400
    return refused.value


ADDRESSES = [
    "http://169.254.169.254/latest/meta-data/",
    "http://127.0.0.1:8000/health",
    "http://localhost/",
    "http://[::1]/",
    "http://10.0.0.1/a.png",
    "http://2130706433/",
    "http://0x7f.1/",
    "http://127.1/",
    "https://example.com/cat.png",
    "file:///etc/passwd",
    "ftp://example.com/a",
    "gopher://example.com/",
    "//example.com/a",
    "/etc/passwd",
    "HTTP://EXAMPLE.COM/a",
    " data:image/png;base64,AA",
    "",
]


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize(
    "part",
    [
        lambda address: {"type": "image_url", "image_url": {"url": address}},
        lambda address: {"type": "image_url", "image_url": address},
        lambda address: {"type": "video_url", "video_url": {"url": address}},
        lambda address: {"type": "audio_url", "audio_url": {"url": address}},
        lambda address: {"type": "image", "source": {"type": "url", "url": address}},
        lambda address: {"type": "input_file", "file_url": address},
        lambda address: {"type": "tool_result", "content": [{"type": "image", "source": {"url": address}}]},
    ],
)
def test_no_engine_is_sent_on_an_errand(address, part):
    error = refusal(body(part(address)))
    assert error.code == "media_url_refused"
    assert not address or address not in error.message


def test_a_name_in_disguise_is_seen():
    content = body(image("http://127.0.0.1/")).replace(b'"image_url": {', b'"image\\u005furl": {')
    assert refusal(content.replace(b'"url"', b'"u\\u0072l"')).code == "media_url_refused"


@pytest.mark.parametrize("codec", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be", "utf-8-sig"])
def test_what_engines_read_in_another_encoding_is_judged_too(codec):
    def encoded(content):
        return content.decode().encode(codec)

    assert refusal(encoded(body(image("http://127.0.0.1/")))).code == "media_url_refused"
    assert refusal(encoded(b" " + nested(MAX_DEPTH))).code == "invalid_json"
    assert refusal(encoded(b'{"messages":[%b]}' % b",".join([b'{"role":"a"}'] * 4097))).code == "too_many_messages"
    check_body(encoded(body(image("data:image/png;base64,AA"))), NOBODY)


def test_what_is_in_the_request_itself_passes():
    check_body(body(image("data:image/png;base64,iVBORw0KGgo=")), NOBODY)
    check_body(body(image("DATA:image/png;base64,iVBORw0KGgo=")), NOBODY)


def test_an_allowed_host_passes_by_its_name_alone():
    hosts = frozenset(("cdn.example.com",))
    check_body(body(image("https://cdn.example.com/a.png?b=c")), hosts)
    check_body(body(image("https://CDN.example.com.:8443/a.png")), hosts)
    for other in (
        "https://example.com/",
        "https://cdn.example.com.evil.org/",
        "https://cdn.example.com@evil.org/",
        "https://evil.org\\@cdn.example.com/",
        "https://evil.org#@cdn.example.com",
        "https://cdn.example.com\t.evil.org/",
        "ftp://cdn.example.com/",
        "https://cdn.ex\u00e4mple.com/",
    ):
        refusal(body(image(other)), hosts)


def test_where_every_name_is_allowed_numbers_and_bare_names_are_not():
    everywhere = frozenset(("*",))
    check_body(body(image("https://example.com/a.png")), everywhere)
    for address in ("http://127.0.0.1/", "http://2130706433/", "http://0x7f.1/", "http://[::1]/", "http://localhost/"):
        refusal(body(image(address)), everywhere)
    for address in ("http://a.localhost/", "http://metadata.google.internal/", "http://printer.local./"):
        refusal(body(image(address)), everywhere)
        check_body(body(image(address)), everywhere | {address.split("/")[2].rstrip(".")})


def test_addresses_that_no_engine_fetches_are_nobodys_business():
    check_body(body({"type": "text", "text": "see http://localhost/"}), NOBODY)
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"properties": {"url": {"type": "string"}}}}}]
    check_body(body({"type": "text", "text": "x"}, tools=tools, metadata={"url": "http://localhost"}), NOBODY)


def test_what_python_alone_can_read_is_judged_too():
    content = b'{"model":"m","x":NaN,"messages":[{"role":"user","content":[{"image_url":{"url":"http://a"}}]}]}'
    assert refusal(content).code == "media_url_refused"


def nested(depth):
    return b'{"model":"m","x":' + b"[" * depth + b"]" * depth + b"}"


def test_a_body_is_no_deeper_than_its_limit():
    check_body(nested(MAX_DEPTH - 1), NOBODY)
    assert refusal(nested(MAX_DEPTH)).code == "invalid_json"


def test_brackets_in_texts_are_no_depth():
    check_body(json.dumps({"model": "m", "prompt": '["{' * 2000 + "\\"}).encode(), NOBODY)
    check_body(json.dumps({"model": "m", "prompt": [[1]] * 2000}).encode(), NOBODY)


def test_messages_are_counted():
    message = {"role": "user", "content": 'the "role" of it'}
    check_body(json.dumps({"messages": [message] * MAX_MESSAGES}).encode(), NOBODY)
    assert refusal(json.dumps({"messages": [message] * (MAX_MESSAGES + 1)}).encode()).code == "too_many_messages"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=30,
)


@given(JSON)
def test_whatever_else_a_body_says_it_passes(value):
    check_body(json.dumps({"model": "m", "value": value}).encode(), NOBODY)

import pytest

from workers.gateway.batches.forms import read_listing, read_new_batch, read_upload
from workers.gateway.errors import GatewayError

pytestmark = pytest.mark.unit

TYPE = b"multipart/form-data; boundary=xx"


def form(*parts):
    body = b"".join(b'--xx\r\nContent-Disposition: form-data; name="%b"%b\r\n\r\n%b\r\n' % part for part in parts)
    return body + b"--xx--\r\n"


PURPOSE = (b"purpose", b"", b"batch")
FILE = (b"file", b'; filename="in.jsonl"', b"content\r\n--x")


def test_a_file_is_found_with_its_name():
    upload = read_upload(form(PURPOSE, FILE), TYPE)
    assert (upload.filename, upload.content, upload.expires_after_s) == ("in.jsonl", b"content\r\n--x", None)


def test_a_file_may_say_how_long_it_is_wanted():
    lifetime = [(b"expires_after[anchor]", b"", b"created_at"), (b"expires_after[seconds]", b"", b"3600")]
    assert read_upload(form(PURPOSE, FILE, *lifetime), TYPE).expires_after_s == 3600


def test_a_name_cannot_leave_its_place():
    named = (b"file", b'; filename="../../etc/pass\x01wd"', b"x")
    assert read_upload(form(PURPOSE, named), TYPE).filename == ".._.._etc_pass_wd"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (form(FILE), "purpose"),
        (form((b"purpose", b"", b"assistants"), FILE), "purpose"),
        (form(PURPOSE), "file"),
        (form(PURPOSE, (b"file", b"", b"")), "file"),
        (form(PURPOSE, FILE, (b"expires_after[seconds]", b"", b"3600")), "expires_after"),
        (form(PURPOSE, FILE, (b"expires_after[anchor]", b"", b"created_at")), "expires_after"),
        (b"", "file"),
    ],
    ids=str,
)
def test_a_wrong_form_is_refused(body, param):
    with pytest.raises(GatewayError) as refusal:
        read_upload(body, TYPE)
    assert (refusal.value.status, refusal.value.param) == (400, param)


def test_a_listing_has_defaults():
    listing = read_listing(b"", "batches")
    assert (listing.limit, listing.after, listing.purpose, listing.newest_first) == (20, "", "", True)
    assert read_listing(b"limit=3&after=x&order=asc&purpose=batch", "files").after == "x"


@pytest.mark.parametrize("query", [b"limit=0", b"limit=-1", b"limit=x", b"limit=101", b"order=up", "limit=٣".encode()])
def test_a_wrong_listing_is_refused(query):
    with pytest.raises(GatewayError):
        read_listing(query, "batches")


def test_a_new_batch_is_read():
    body = b'{"input_file_id":"f","endpoint":"/v1/completions","completion_window":"24h","metadata":{"a":"b"},"x":1}'
    wanted = read_new_batch(body)
    assert (wanted.input_file_id, wanted.endpoint, wanted.metadata) == ("f", "/v1/completions", {"a": "b"})

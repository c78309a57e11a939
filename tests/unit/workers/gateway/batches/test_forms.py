import pytest

from workers.gateway.batches.forms import read_listing, read_new_batch, read_upload
from workers.gateway.errors import GatewayError

pytestmark = pytest.mark.unit

LIFETIME = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}


def test_a_file_may_say_how_long_it_is_wanted():
    assert read_upload("in.jsonl", {"purpose": "batch"}).expires_after_s is None
    assert read_upload("in.jsonl", {"purpose": "batch"} | LIFETIME).expires_after_s == 3600


def test_a_name_cannot_leave_its_place():
    assert read_upload("../../etc/pass\x01wd", {"purpose": "batch"}).filename == ".._.._etc_pass_wd"


@pytest.mark.parametrize(
    ("values", "param"),
    [
        ({}, "purpose"),
        ({"purpose": "assistants"}, "purpose"),
        ({"purpose": "batch", "expires_after[seconds]": "3600"}, "expires_after"),
        ({"purpose": "batch", "expires_after[anchor]": "created_at"}, "expires_after"),
    ],
    ids=str,
)
def test_wrong_fields_are_refused(values, param):
    with pytest.raises(GatewayError) as refusal:
        read_upload("in.jsonl", values)
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

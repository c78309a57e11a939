import pytest
from msgspec import UNSET

from workers.gateway.payload.lengthened import without_ours
from workers.gateway.payload.peeks import is_refused_as_number

pytestmark = pytest.mark.unit

SENT = b'{"model":"m","priority":3,"stream_options":{}}'


MISSING = b"{'type': 'missing', 'loc': 'body.messages', 'msg': 'Field required', 'input': '<dict of %d items>'}"
WHOLE = b"{'type': 'value_error', 'loc': 'body', 'msg': 'Value error', 'input': '<dict of %d items>'}"


@pytest.mark.parametrize("said", [MISSING, WHOLE, MISSING + b"\n  " + MISSING.replace(b"%d", b"3")])
def test_an_engine_counts_the_clients_fields_and_not_ours(said):
    assert without_ours(said % 3, b'{"model":"m"}', SENT) == (said % 1).replace(b"3", b"1")


def test_what_an_engine_puts_in_itself_is_counted_as_it_would_be():
    assert without_ours(MISSING % 4, b'{"model":"m"}', SENT) == MISSING % 2


@pytest.mark.parametrize(
    "said",
    [
        b"too long",
        MISSING.replace(b"dict", b"list") % 3,
        MISSING.replace(b"body.messages", b"body.messages.0.role") % 3,
        b"{'type': 'list_type', 'loc': 'body.messages', 'msg': 'a list', 'input': '<dict of 3 items>'}",
    ],
)
def test_other_words_stay(said):
    assert without_ours(said, b'{"model":"m"}', SENT) == said


@pytest.mark.parametrize("value", [UNSET, 0, -4, True, 3.0, "3", " +3 ", "3.0", "1_000", 2**63 - 1])
def test_what_an_engine_reads_as_a_number_is_replaced(value):
    assert not is_refused_as_number(value)


@pytest.mark.parametrize(
    "value", [None, 1.5, float("nan"), float("inf"), "x1", "1e3", "\u0661", "", [], {}, 2**63, 1e300]
)
def test_what_no_engine_reads_as_a_number_is_left_to_be_refused(value):
    assert is_refused_as_number(value)

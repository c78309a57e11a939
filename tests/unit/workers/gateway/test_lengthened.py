import pytest

from workers.gateway.lengthened import without_ours
from workers.gateway.peeks import may_be_number

pytestmark = pytest.mark.unit

SENT = b'{"model":"m","priority":3,"stream_options":{}}'


def test_an_engine_counts_the_clients_fields_and_not_ours():
    said = b"{'loc': 'body.messages', 'input': '<dict of 3 items>'}"
    assert without_ours(said, b'{"model":"m"}', SENT) == said.replace(b"3", b"1")


@pytest.mark.parametrize("said", [b"too long", b"'input': '<dict of 2 items>'", b"<list of 3 items>"])
def test_other_words_stay(said):
    assert without_ours(said, b'{"model":"m"}', SENT) == said


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, True), (3, True), (1.5, True), ("-4", True), ("x", False), ([], False), ({}, False)],
)
def test_what_no_engine_reads_as_a_number_is_left_to_be_refused(value, expected):
    assert may_be_number(value) is expected

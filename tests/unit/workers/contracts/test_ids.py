import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.contracts.ids import uuid7

pytestmark = pytest.mark.unit


@given(st.floats(0, 2**40), st.integers(0, 2**74 - 1))
def test_it_is_a_uuid_of_version_7(unix_time_s, random_bits):
    made = uuid.UUID(uuid7(unix_time_s, random_bits))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)


@given(st.integers(0, 2**41), st.integers(1, 2**20), st.integers(0, 2**74 - 1), st.integers(0, 2**74 - 1))
def test_a_later_one_sorts_behind(first_ms, gap_ms, bits, other_bits):
    assert uuid7(first_ms / 1000, bits) < uuid7((first_ms + gap_ms + 1) / 1000, other_bits)


@given(st.integers(0, 2**74 - 1), st.integers(0, 2**74 - 1))
def test_different_random_bits_make_different_ids(bits, other_bits):
    assert (uuid7(1.0, bits) == uuid7(1.0, other_bits)) == (bits == other_bits)

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.gateway.batches.peers import ITEMS, WITHDRAWALS
from workers.gateway.front.proofs import FRESH_FOR_S, is_proven, prove

pytestmark = pytest.mark.unit

NOW = 1_800_000_000.5


@given(body=st.binary(), drift=st.floats(-FRESH_FOR_S + 2, FRESH_FOR_S - 2))
def test_who_knows_the_secret_is_a_gateway(body, drift):
    assert is_proven("s", ITEMS, body, prove("s", ITEMS, body, NOW + drift), NOW)


@pytest.mark.parametrize("drift", [-FRESH_FOR_S - 2, FRESH_FOR_S + 2])
def test_a_proof_does_not_last(drift):
    assert not is_proven("s", ITEMS, b"x", prove("s", ITEMS, b"x", NOW + drift), NOW)


def test_a_proof_is_of_one_body_path_and_time():
    proof = prove("s", ITEMS, b"x", NOW)
    assert not is_proven("s", ITEMS, b"y", proof, NOW)
    assert not is_proven("s", WITHDRAWALS, b"x", proof, NOW)
    assert not is_proven("other", ITEMS, b"x", proof, NOW)
    assert not is_proven("s", ITEMS, b"x", proof.replace(b"1800000000", b"1800000001"), NOW)


def test_without_a_secret_nobody_is():
    assert not is_proven("", ITEMS, b"x", prove("", ITEMS, b"x", NOW), NOW)


@given(proof=st.binary(max_size=100) | st.integers(1, 10**400).map(lambda number: b"%d x" % number))
def test_nonsense_proves_nothing(proof):
    assert not is_proven("s", ITEMS, b"x", proof, NOW)

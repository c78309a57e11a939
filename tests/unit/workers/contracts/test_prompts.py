"""A prompt is sealed for the control plane alone, and for one request alone."""

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from workers.contracts.prompts import UnreadablePromptError, open_prompt, seal_prompt

pytestmark = pytest.mark.unit

OURS = X25519PrivateKey.from_private_bytes(b"\x01" * 32)
OTHERS = X25519PrivateKey.from_private_bytes(b"\x02" * 32)


def seal(text=b"hello", *, record_id="r", tenant_id="t", key=OURS):
    public = key.public_key().public_bytes_raw()
    return seal_prompt(text, record_id=record_id, tenant_id=tenant_id, public_key=public)


@given(st.binary(max_size=2000))
def test_what_was_sealed_is_opened_byte_for_byte(text):
    assert open_prompt(seal(text), record_id="r", tenant_id="t", private_key=OURS) == text


def test_the_same_text_is_never_sealed_to_the_same_bytes():
    assert seal() != seal()


@pytest.mark.parametrize(
    ("sealed", "record_id", "tenant_id"),
    [
        (seal(key=OTHERS), "r", "t"),
        (seal(), "another", "t"),
        (seal(), "r", "another"),
        ("", "r", "t"),
        ("no base64 ü", "r", "t"),
        (base64.b64encode(b"x" * 10).decode(), "r", "t"),
        (base64.b64encode(bytes(64)).decode(), "r", "t"),
        (seal()[:-8] + "AAAAAAA=", "r", "t"),
    ],
)
def test_what_was_sealed_for_others_or_was_changed_does_not_open(sealed, record_id, tenant_id):
    with pytest.raises(UnreadablePromptError):
        open_prompt(sealed, record_id=record_id, tenant_id=tenant_id, private_key=OURS)

import pytest

from apps.audit.policies import HIDDEN, without_secrets

pytestmark = pytest.mark.unit


def test_anything_named_like_a_secret_is_hidden():
    state = {"token": "x", "key_sha256": "y", "nested": {"password": "z"}, "name": "gold"}
    assert without_secrets(state) == {
        "token": HIDDEN,
        "key_sha256": HIDDEN,
        "nested": {"password": HIDDEN},
        "name": "gold",
    }


def test_numbers_of_tokens_are_no_secret():
    assert without_secrets({"max_context_tokens": 4096}) == {"max_context_tokens": 4096}

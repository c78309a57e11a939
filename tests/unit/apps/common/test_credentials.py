import re

import pytest

from apps.common.credentials import API_KEY, issue_credential, sha256_of

pytestmark = pytest.mark.unit


def test_a_key_shows_its_kind_and_prefix_and_is_stored_as_a_hash():
    credential = issue_credential(API_KEY)
    assert re.fullmatch(rf"ty-{credential.prefix}-[\w-]{{32}}", credential.text)
    assert credential.sha256 == sha256_of(credential.text)
    assert re.fullmatch(r"[0-9a-f]{64}", credential.sha256)


def test_printing_a_credential_does_not_print_the_key():
    credential = issue_credential(API_KEY)
    assert credential.text not in repr(credential)

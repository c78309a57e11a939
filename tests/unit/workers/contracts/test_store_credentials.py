import pytest

from workers.contracts.store_credentials import NoCredentialsError, find_credentials
from workers.contracts.stores import StoreAddress

pytestmark = pytest.mark.unit

FILE = """
[default]
aws_access_key_id = d
aws_secret_access_key = d%cret
[minio]
aws_access_key_id = m
aws_secret_access_key = m-secret
aws_session_token = m-token
[half]
aws_access_key_id = h
"""


@pytest.fixture
def environ(tmp_path):
    path = tmp_path / "credentials"
    path.write_text(FILE)
    return {"AWS_SHARED_CREDENTIALS_FILE": str(path)}


def found(environ, credentials=""):
    return find_credentials(StoreAddress(credentials=credentials), environ)


def test_a_store_s_own_profile_wins_over_the_environment(environ):
    both = environ | {"AWS_ACCESS_KEY_ID": "e", "AWS_SECRET_ACCESS_KEY": "e"}
    assert found(both, "minio") == {"access_key_id": "m", "secret_access_key": "m-secret", "session_token": "m-token"}
    assert found(both) == {"access_key_id": "e", "secret_access_key": "e"}


def test_without_keys_in_the_environment_the_file_s_profile_is_taken(environ):
    assert found(environ) == {"access_key_id": "d", "secret_access_key": "d%cret"}
    assert found(environ | {"AWS_PROFILE": "minio"})["access_key_id"] == "m"


def test_nobody_s_and_a_machine_s_need_none_and_a_role_is_found_by_the_client():
    assert found({}, "anonymous") == found({}, "instance") == {}
    assert found({"AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}) == {}


@pytest.mark.parametrize(("profile", "says"), [("other", "no profile"), ("half", "no key and secret")])
def test_a_profile_that_is_not_there_is_named_without_what_the_file_holds(environ, profile, says):
    with pytest.raises(NoCredentialsError, match=says) as caught:
        found(environ, profile)
    assert "secret_access_key" not in str(caught.value)


def test_where_there_are_none_the_file_is_named():
    with pytest.raises(NoCredentialsError, match="/nowhere cannot be read"):
        found({"AWS_SHARED_CREDENTIALS_FILE": "/nowhere"})

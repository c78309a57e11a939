import pytest
from django.core.exceptions import ImproperlyConfigured

from controlplane.settings import env
from controlplane.starting import said_plainly

pytestmark = pytest.mark.unit


def test_a_number_outside_its_range_is_refused_with_the_range(monkeypatch):
    monkeypatch.setenv("TOKENYARD_WEB_PORT", "70000")
    with pytest.raises(ImproperlyConfigured, match=r"TOKENYARD_WEB_PORT must be a whole number from 1 to 65535"):
        env.port("TOKENYARD_WEB_PORT", 8000)


@pytest.mark.parametrize("value", ["-1", "8e3", "٨٠", "eight"])
def test_what_is_no_number_is_refused(monkeypatch, value):
    monkeypatch.setenv("TOKENYARD_WEB_PORT", value)
    with pytest.raises(ImproperlyConfigured):
        env.port("TOKENYARD_WEB_PORT", 8000)


def test_an_empty_variable_counts_as_not_set(monkeypatch):
    monkeypatch.setenv("TOKENYARD_WEB_PORT", " ")
    assert env.port("TOKENYARD_WEB_PORT", 8000) == 8000


def test_a_missing_variable_without_a_default_says_what_to_do(monkeypatch):
    monkeypatch.delenv("TOKENYARD_SECRET_KEY", raising=False)
    with pytest.raises(ImproperlyConfigured, match="make up"):
        env.text("TOKENYARD_SECRET_KEY")


def test_a_database_url_may_name_a_socket_directory(monkeypatch):
    monkeypatch.setenv("TOKENYARD_DATABASE_URL", "postgresql://ty:p%40ss@/yard?host=/run/pg&port=5433")
    assert env.database("TOKENYARD_DATABASE_URL") == {
        "NAME": "yard",
        "USER": "ty",
        "PASSWORD": "p@ss",
        "HOST": "/run/pg",
        "PORT": "5433",
    }


@pytest.mark.parametrize("value", ["mysql://a@b/c", "postgresql://a@b", "postgresql://a@b/", "yard"])
def test_what_is_no_postgres_url_is_refused(monkeypatch, value):
    monkeypatch.setenv("TOKENYARD_DATABASE_URL", value)
    with pytest.raises(ImproperlyConfigured):
        env.database("TOKENYARD_DATABASE_URL")


def test_the_refusal_of_a_database_url_does_not_repeat_the_password(monkeypatch):
    monkeypatch.setenv("TOKENYARD_DATABASE_URL", "mysql://a:hunter2@b/c")
    with pytest.raises(ImproperlyConfigured) as refusal:
        env.database("TOKENYARD_DATABASE_URL")
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("value", ["", "c2hvcnQ=", "not base64!"])
def test_a_signing_seed_is_32_bytes_of_base64(value):
    with pytest.raises(ImproperlyConfigured, match="openssl rand"):
        env.signing_seed("TOKENYARD_SNAPSHOT_KEY", value)


def test_a_generated_secret_is_made_once_and_only_its_owner_may_read_it(monkeypatch, tmp_path):
    monkeypatch.delenv("TOKENYARD_SECRET_KEY", raising=False)
    file = tmp_path / "secrets" / "key"
    first = env.generated_secret("TOKENYARD_SECRET_KEY", file, size_bytes=32)
    assert env.generated_secret("TOKENYARD_SECRET_KEY", file, size_bytes=32) == first
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("valkey", "broker"),
    [
        ("unix://:pw@/run/v.sock?db=0", "redis+socket://:pw@/run/v.sock?virtual_host=0"),
        ("redis://:pw@host:6379/1", "redis://:pw@host:6379/1"),
    ],
)
def test_celery_is_told_the_same_place_in_its_own_spelling(valkey, broker):
    assert env.broker_url(valkey) == broker


def test_object_stores_are_read_from_a_file_and_a_bad_one_stops_the_process(monkeypatch, tmp_path):
    path = tmp_path / "stores.toml"
    path.write_text('[ours]\nendpoint = "https://minio"\n')
    monkeypatch.setenv("TOKENYARD_STORES", str(path))
    assert [each.name for each in env.stores("TOKENYARD_STORES")] == ["ours"]
    path.write_text('[ours]\nendpoint = "minio"\n')
    with pytest.raises(ImproperlyConfigured, match="store ours"):
        env.stores("TOKENYARD_STORES")
    monkeypatch.delenv("TOKENYARD_STORES")
    assert env.stores("TOKENYARD_STORES") == []


@pytest.mark.parametrize(
    "value",
    ["http://[bad", "ftp://x", "https://", "example.org", "http://a b", "http://a:99999", "http://a:x", "http://:80"],
)
def test_an_address_that_is_none_is_said_by_its_variables_name(value, monkeypatch):
    monkeypatch.setenv("X", value)
    with pytest.raises(ImproperlyConfigured, match="X must look like http"):
        env.http_url("X")


@pytest.mark.parametrize("value", ["https://id.example/?a=b", "https://id.example/#x", "https://u:p@id.example", "id"])
def test_an_issuer_that_is_none_is_refused_at_the_start(value, monkeypatch):
    monkeypatch.setenv("TOKENYARD_OIDC_ISSUER", value)
    with pytest.raises(ImproperlyConfigured, match="TOKENYARD_OIDC_ISSUER must"):
        env.openid_provider()


def test_a_process_that_a_setting_keeps_from_starting_says_so_in_one_line():
    with pytest.raises(SystemExit, match=r"^Tokenyard does not start: X is not set") as stopped, said_plainly():
        env.text("X")
    assert stopped.value.__cause__ is None

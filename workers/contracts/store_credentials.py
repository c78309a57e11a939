"""Whose name a reader of an object store reads in: from its environment or its credentials file, as AWS's own tools do.

What is found goes to the store's client and nowhere else.
"""

from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from pathlib import Path

from workers.contracts.stores import ANONYMOUS, INSTANCE, StoreAddress

_KEYS = {
    "aws_access_key_id": "access_key_id",
    "aws_secret_access_key": "secret_access_key",
    "aws_session_token": "session_token",
}
# With one of these in the environment the client finds credentials by itself.
_ROLES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


class NoCredentialsError(Exception):
    """The message says where they were looked for."""


def find_credentials(store: StoreAddress, environ: Mapping[str, str]) -> dict[str, str]:
    """In the client's words; {} where it needs none, or finds them by itself. Raises NoCredentialsError."""
    if store.credentials in (ANONYMOUS, INSTANCE):
        return {}
    if store.credentials:
        return _of_profile(store.credentials, environ)
    if environ.get("AWS_ACCESS_KEY_ID"):
        return {ours: environ[name.upper()] for name, ours in _KEYS.items() if environ.get(name.upper())}
    if any(environ.get(name) for name in _ROLES):
        return {}
    return _of_profile(environ.get("AWS_PROFILE") or "default", environ)


def _of_profile(name: str, environ: Mapping[str, str]) -> dict[str, str]:
    path = Path(environ.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials").expanduser()
    parser = ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text())
    except (OSError, UnicodeDecodeError, ConfigParserError) as error:
        raise NoCredentialsError(f"no credentials: AWS_ACCESS_KEY_ID is not set, and {path} cannot be read") from error
    if not parser.has_section(name):
        raise NoCredentialsError(f"no credentials: {path} has no profile [{name}]")
    found = {ours: parser[name][theirs] for theirs, ours in _KEYS.items() if parser[name].get(theirs)}
    if not {"access_key_id", "secret_access_key"} <= set(found):
        raise NoCredentialsError(f"no credentials: the profile [{name}] in {path} has no key and secret")
    return found

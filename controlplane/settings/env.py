"""Typed readers of environment variables. A bad value stops the process at start and says what to do."""

import base64
import binascii
import os
import secrets
from ipaddress import ip_network
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from django.core.exceptions import ImproperlyConfigured

from apps.identity.policies import read_group_rules
from workers.contracts.stores import StoreAddress, StoreSettingsError, read_stores

SIGNING_SEED_BYTES = 32
SECRET_KEY_BYTES = 48


def text(name: str, default: str | None = None) -> str:
    value = os.environ.get(name, "").strip()
    if value:
        return value
    if default is None:
        raise ImproperlyConfigured(f"{name} is not set. Set it, or start everything with `make up`.")
    return default


def integer(name: str, default: int, *, low: int, high: int) -> int:
    value = text(name, str(default))
    if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
        raise ImproperlyConfigured(f"{name} must be a whole number from {low} to {high}, not {value!r}.")
    return int(value)


def port(name: str, default: int) -> int:
    return integer(name, default, low=1, high=65535)


def texts(name: str, default: list[str]) -> list[str]:
    """Comma-separated."""
    return [part.strip() for part in text(name, ",".join(default)).split(",") if part.strip()]


def networks(name: str) -> list[str]:
    """Comma-separated CIDR ranges; none unless given."""
    given = os.environ.get(name, "").split(",")
    try:
        return [str(ip_network(part.strip())) for part in given if part.strip()]
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must list ranges like 10.0.0.0/8,2001:db8::/32: {error}.") from error


def directory(name: str, default: Path) -> Path:
    return Path(text(name, str(default))).expanduser().resolve()


def stores(name: str) -> list[StoreAddress]:
    """A file of TOML, a table for each; none without it."""
    path = os.environ.get(name, "").strip()
    try:
        return read_stores(Path(path).expanduser().read_text()) if path else []
    except (OSError, UnicodeDecodeError, StoreSettingsError) as error:
        raise ImproperlyConfigured(f"{name}={path!r} should be a file that describes object stores: {error}") from error


def http_url(name: str, default: str | None = None) -> str:
    value = text(name, default).rstrip("/")
    if not _is_http_url(value):
        raise ImproperlyConfigured(f"{name} must look like http://host:port, not {value!r}.")
    return value


def _is_http_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        is_reachable = bool(parts.hostname) and parts.port != 0  # a port that is none raises
    except ValueError:  # http://[
        return False
    return parts.scheme in {"http", "https"} and is_reachable and value.isprintable() and " " not in value


def valkey_url(name: str, default: str | None = None) -> str:
    value = text(name, default)
    if urlsplit(value).scheme not in {"redis", "rediss", "unix"}:
        raise ImproperlyConfigured(f"{name} must start with redis://, rediss:// or unix://.")
    return value


def valkey_url_for_nodes(name: str, default: str) -> str:
    """`none`: they are told of none."""
    return "" if text(name, default) == "none" else valkey_url(name, default)


def broker_url(valkey: str) -> str:
    """The same place in Celery's spelling."""
    return valkey.replace("unix://", "redis+socket://", 1).replace("?db=", "?virtual_host=")


def database(name: str, default: str | None = None) -> dict[str, str]:
    """`postgresql://user:password@host:port/name`, or `…@/name?host=/socket/directory&port=5432`."""
    parts = urlsplit(text(name, default))
    query = {key: values[-1] for key, values in parse_qs(parts.query).items()}
    if parts.scheme not in {"postgresql", "postgres"} or len(parts.path) < len("/x"):
        raise ImproperlyConfigured(f"{name} must look like postgresql://user:password@host:port/database.")
    return {
        "NAME": unquote(parts.path[1:]),
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.get("host", parts.hostname or ""),
        "PORT": query.get("port", str(parts.port or "")),
    }


def role(name: str, default: str) -> tuple[str, str]:
    """The user and password of a database URL; the default without a password where there is none."""
    if not os.environ.get(name, "").strip():
        return default, ""
    found = database(name)
    return found["USER"], found["PASSWORD"]


def openid_provider() -> dict[str, Any]:
    """Without TOKENYARD_OIDC_ISSUER nobody signs in that way."""
    if text("TOKENYARD_OIDC_ISSUER", "-") == "-":
        return {"issuer": ""}
    issuer = issuer_url("TOKENYARD_OIDC_ISSUER")
    try:
        rules = read_group_rules(text("TOKENYARD_OIDC_GROUPS", "{}"))
    except ValueError as error:
        raise ImproperlyConfigured(f"TOKENYARD_OIDC_GROUPS is wrong: {error}.") from error
    return {
        "issuer": issuer,
        "name": text("TOKENYARD_OIDC_NAME", host_of(issuer)),
        "client_id": text("TOKENYARD_OIDC_CLIENT_ID"),
        "client_secret": text("TOKENYARD_OIDC_CLIENT_SECRET"),
        "scopes": text("TOKENYARD_OIDC_SCOPES", "openid profile email"),
        "groups_claim": text("TOKENYARD_OIDC_GROUPS_CLAIM", "groups"),
        "group_rules": rules,
    }


def issuer_url(name: str) -> str:
    """As OpenID Connect has it: the configuration's address is made by adding to it."""
    value = http_url(name)
    parts = urlsplit(value)
    if parts.query or parts.fragment or parts.username is not None:
        raise ImproperlyConfigured(f"{name} must be an issuer without ?, # or user, such as https://id.example/realm.")
    return value


def signing_seed(name: str, value: str) -> bytes:
    """The 32 raw bytes of an Ed25519 seed."""
    try:
        seed = base64.b64decode(value, validate=True)
    except binascii.Error:
        seed = b""
    if len(seed) != SIGNING_SEED_BYTES:
        raise ImproperlyConfigured(f"{name} must be base64 of 32 bytes: `openssl rand -base64 32` makes one.")
    return seed


def generated_secret(name: str, file: Path, *, size_bytes: int) -> str:
    """The variable, else the content of `file`, which is made once: for development, so that processes agree."""
    value = os.environ.get(name, "").strip()
    if value:
        return value
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return file.read_text().strip()
    with os.fdopen(descriptor, "w") as opened:
        opened.write(base64.b64encode(secrets.token_bytes(size_bytes)).decode())
    return file.read_text().strip()


def host_of(url: str) -> str:
    return urlsplit(url).hostname or ""

"""Passwords and keys of the local stack, made once, one file each that only its owner can read."""

import base64
import secrets
from dataclasses import dataclass
from pathlib import Path

from deploy.local.layout import write_private

_SECRET_KEY_BYTES = 48
_SIGNING_SEED_BYTES = 32


@dataclass(frozen=True, kw_only=True, repr=False)
class Credentials:
    database_password: str
    web_database_password: str
    valkey_password: str
    secret_key: str
    snapshot_key: str


def load_or_make(directory: Path) -> Credentials:
    return Credentials(
        database_password=_kept(directory / "database_password", secrets.token_hex(16)),
        web_database_password=_kept(directory / "web_database_password", secrets.token_hex(16)),
        valkey_password=_kept(directory / "valkey_password", secrets.token_hex(16)),
        secret_key=_kept(directory / "secret_key", _random_base64(_SECRET_KEY_BYTES)),
        snapshot_key=_kept(directory / "snapshot_key", _random_base64(_SIGNING_SEED_BYTES)),
    )


def _kept(path: Path, candidate: str) -> str:
    if not path.exists():
        write_private(path, candidate)
    return path.read_text().strip()


def _random_base64(size_bytes: int) -> str:
    return base64.b64encode(secrets.token_bytes(size_bytes)).decode()

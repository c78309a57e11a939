"""A snapshot in its signed envelope: `{"signature": base64, "payload": {…}}`.

The signature covers the payload's bytes exactly as they stand in the envelope, so no canonical form is needed.
"""

import base64
import binascii

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from workers.contracts.snapshot import SCHEMA_VERSION, Snapshot


class SnapshotRefusedError(ValueError):
    """The bytes are not a snapshot this gateway may use; the message says why."""


class Envelope(msgspec.Struct, frozen=True):
    signature: str
    payload: msgspec.Raw


def sign(snapshot: Snapshot, private_key: Ed25519PrivateKey) -> bytes:
    payload = msgspec.json.encode(snapshot)
    signature = base64.b64encode(private_key.sign(payload)).decode()
    return msgspec.json.encode(Envelope(signature, msgspec.Raw(payload)))


def public_key_text(private_key: Ed25519PrivateKey) -> str:
    return base64.b64encode(private_key.public_key().public_bytes_raw()).decode()


def open_signed(envelope: bytes, public_key: str) -> Snapshot:
    """Raises SnapshotRefusedError unless `public_key` (base64 of raw bytes) signed the payload."""
    try:
        parts = msgspec.json.decode(envelope, type=Envelope)
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(base64.b64decode(parts.signature, validate=True), bytes(parts.payload))
    except (msgspec.DecodeError, binascii.Error, ValueError) as error:
        raise SnapshotRefusedError(f"not a signed snapshot: {error}") from error
    except InvalidSignature as error:
        raise SnapshotRefusedError("the signature is not the control plane's") from error
    return open_plain(bytes(parts.payload))


def open_plain(payload: bytes) -> Snapshot:
    try:
        snapshot = msgspec.json.decode(payload, type=Snapshot)
    except msgspec.DecodeError as error:
        raise SnapshotRefusedError(f"not a snapshot: {error}") from error
    if snapshot.schema_version != SCHEMA_VERSION:
        raise SnapshotRefusedError(f"schema version {snapshot.schema_version}; this gateway reads {SCHEMA_VERSION}")
    return snapshot

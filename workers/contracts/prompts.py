"""Prompts of tenants that asked for theirs to be kept, sealed on the gateway: only the control plane can open them.

Sealed by X25519, HKDF-SHA256 and ChaCha20-Poly1305, with a key of its own for each prompt. Whose it is is sealed with
it, so that a text moved to another request or tenant does not open.
"""

import base64
import binascii
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from msgspec import Struct

_KEY_BYTES: Final = 32
# A key is used once, so its one nonce may be known.
_NONCE: Final = bytes(12)


class SealedPrompt(Struct, frozen=True, kw_only=True):
    """Of the request whose usage record is `record_id`. `sealed` is base64; `arrived_at` is in Unix seconds."""

    record_id: str
    tenant_id: str
    arrived_at: float
    sealed: str


class PromptFile(Struct, frozen=True, kw_only=True):
    """What a gateway kept in one second, in a file of `prompts/`; its agent deletes it once it is stored."""

    prompts: list[SealedPrompt]


class UnreadablePromptError(ValueError):
    """It was sealed for another key, or for another request, or is damaged."""


def seal_prompt(text: bytes, *, record_id: str, tenant_id: str, public_key: bytes) -> str:
    """`public_key` is 32 raw bytes."""
    ephemeral = X25519PrivateKey.generate()
    sender = ephemeral.public_key().public_bytes_raw()
    shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(public_key))
    sealed = ChaCha20Poly1305(_key(shared, sender + public_key)).encrypt(_NONCE, text, _whose(record_id, tenant_id))
    return base64.b64encode(sender + sealed).decode()


def open_prompt(sealed: str, *, record_id: str, tenant_id: str, private_key: X25519PrivateKey) -> bytes:
    """Raises UnreadablePromptError."""
    try:
        raw = base64.b64decode(sealed, validate=True)
        sender, body = raw[:_KEY_BYTES], raw[_KEY_BYTES:]
        shared = private_key.exchange(X25519PublicKey.from_public_bytes(sender))
        own = private_key.public_key().public_bytes_raw()
        return ChaCha20Poly1305(_key(shared, sender + own)).decrypt(_NONCE, body, _whose(record_id, tenant_id))
    except (binascii.Error, ValueError, InvalidTag) as error:
        raise UnreadablePromptError("this prompt cannot be opened") from error


def _key(shared: bytes, parties: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=None, info=b"tokenyard prompt" + parties).derive(shared)


def _whose(record_id: str, tenant_id: str) -> bytes:
    return f"{record_id} of {tenant_id}".encode()

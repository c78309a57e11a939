"""Bearer secrets: `<kind>-<8 characters>-<random>`. Shown once; only the prefix and the hash are kept."""

import hashlib
import secrets
import string
from dataclasses import dataclass, field

PREFIX_CHARACTERS = 8
RANDOM_BYTES = 24

API_KEY = "ty"
SERVICE_TOKEN = "tys"  # noqa: S105 - a kind, not a token
AGENT_TOKEN = "tya"  # noqa: S105 - likewise
JOIN_TOKEN = "tyj"  # noqa: S105 - likewise
INVITATION = "tyi"
PASSWORD_RESET = "typ"  # noqa: S105 - likewise


@dataclass(frozen=True)
class Credential:
    prefix: str
    sha256: str
    text: str = field(repr=False)


def issue_credential(kind: str) -> Credential:
    prefix = "".join(secrets.choice(string.ascii_lowercase + string.digits) for _ in range(PREFIX_CHARACTERS))
    text = f"{kind}-{prefix}-{secrets.token_urlsafe(RANDOM_BYTES)}"
    return Credential(prefix=prefix, sha256=sha256_of(text), text=text)


def sha256_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

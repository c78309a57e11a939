"""How a gateway shows another one that it is of the same fleet: by the secret of their snapshots."""

import hmac
from hashlib import sha256

# So far apart may two nodes' clocks be.
FRESH_FOR_S = 60.0
_MAX_DIGITS = 12


def prove(secret: str, path: bytes, body: bytes, now: float) -> bytes:
    """What only a gateway that knows the snapshot's secret can say of this body at this time."""
    said_at = b"%d" % now
    return said_at + b" " + _digest(secret, path, body, said_at)


def is_proven(secret: str, path: bytes, body: bytes, proof: bytes, now: float) -> bool:
    return is_of_a_gateway(secret, path, body, proof) and abs(now - int(proof.partition(b" ")[0])) <= FRESH_FOR_S


def is_of_a_gateway(secret: str, path: bytes, body: bytes, proof: bytes) -> bool:
    """Whenever it was said: a clock that is off must not send a request in circles."""
    said_at, _, digest = proof.partition(b" ")
    if not secret or len(said_at) > _MAX_DIGITS or not said_at.isdigit():
        return False
    return hmac.compare_digest(digest, _digest(secret, path, body, said_at))


def _digest(secret: str, path: bytes, body: bytes, said_at: bytes) -> bytes:
    said = b"\n".join((said_at, path, sha256(body).digest()))
    return hmac.new(secret.encode(), said, sha256).hexdigest().encode()

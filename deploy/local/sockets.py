"""Where unix sockets go: beside their data, unless that path is longer than a socket's name may be."""

import os
import tempfile
from hashlib import blake2b
from pathlib import Path

MAX_SOCKET_PATH_BYTES = 107


def socket_directory(preferred: Path, socket_name: str) -> Path:
    """`preferred`, or a directory of the same identity under the system's temporary one."""
    if len(os.fsencode(preferred / socket_name)) <= MAX_SOCKET_PATH_BYTES:
        return preferred
    digest = blake2b(os.fsencode(preferred), digest_size=6).hexdigest()
    return Path(tempfile.gettempdir()) / f"tokenyard-{os.geteuid()}-{digest}"

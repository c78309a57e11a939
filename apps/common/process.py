import os
import socket
from functools import lru_cache

from apps.common.ids import new_id


@lru_cache(maxsize=1)
def process_name() -> str:
    """Tells this process from every other, also from one that had its pid before."""
    return f"{socket.gethostname()[:40]}:{os.getpid()}:{new_id()}"

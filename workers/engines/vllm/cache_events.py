"""vLLM's KV events: which engines publish them, and what their batches say (vllm/distributed/kv_events.py of 0.32)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from workers.contracts.desired import ReplicaSpec
from workers.contracts.endpoints import KVEvents
from workers.contracts.engine_args import VLLMSettings
from workers.engines.environments.locate import package_file
from workers.engines.kv_sockets import kv_events_of
from workers.engines.site import Site

# With events of its own, without a cache, or with a cache per data-parallel rank behind one address.
_EXCLUDING = ("--kv-events-config", "--no-enable-prefix-caching", "--data-parallel")
_GPU = "GPU"
_LOCAL = "LOCAL"


class UnreadableError(ValueError):
    """The engine publishes something else than is known here."""


class BlockStored(Struct, frozen=True, tag=True):
    """Blocks of `block_size` tokens that follow `parent_block_hash` and each other.

    `extra_keys` are what else their hashes cover, a list per block: the adapter's name, images, a cache salt.
    """

    block_hashes: list[int | bytes]
    parent_block_hash: int | bytes | None
    token_ids: list[int]
    block_size: int
    medium: str | None = None
    lora_name: str | None = None
    extra_keys: list[list[Any] | None] | None = None
    group_idx: int | None = None
    locality: str | None = None


class BlockRemoved(Struct, frozen=True, tag=True):
    block_hashes: list[int | bytes]
    medium: str | None = None
    group_idx: int | None = None
    locality: str | None = None


class AllBlocksCleared(Struct, frozen=True, tag=True):
    pass


CacheEvent = BlockStored | BlockRemoved | AllBlocksCleared


class _Batch(Struct, frozen=True, array_like=True):
    ts: float
    events: list[CacheEvent]


_decode = msgspec.msgpack.Decoder(_Batch).decode


def events_of_replica(site: Site, environment: Path, spec: ReplicaSpec, settings: VLLMSettings) -> KVEvents | None:
    """None where it would publish none, or none that say what one cache holds."""
    is_excluded = any(option.replace("_", "-").startswith(_EXCLUDING) for option in settings.extra)
    if not settings.kv_events or is_excluded or spec.task != "generate" or not _can_publish(environment):
        return None
    return kv_events_of(site, spec.replica_id)


def decode_batch(payload: bytes) -> list[CacheEvent]:
    """Of the GPU's own cache and its first group alone. Raises UnreadableError."""
    try:
        return list(_ours(_decode(payload).events))
    except msgspec.DecodeError as error:
        raise UnreadableError(str(error)) from error


def _ours(events: list[CacheEvent]) -> Iterator[CacheEvent]:
    for event in events:
        if isinstance(event, AllBlocksCleared) or (
            event.medium in (None, _GPU) and not event.group_idx and event.locality in (None, _LOCAL)
        ):
            yield event


def _can_publish(environment: Path) -> bool:
    """The installed vLLM has the publisher with its replay."""
    config = package_file(environment, "vllm/config/kv_events.py")
    return config.is_file() and "replay_endpoint" in config.read_text(errors="replace")

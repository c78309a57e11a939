"""Where a replica's weights and adapters come from, whichever way: whether they lie here, and what brings them."""

import re
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, structs

from workers.agent.storage.stored_weights import (
    StoredWeights,
    local_spec,
    part_directory,
    stored_weights_of,
    whole_directory,
)
from workers.agent.storage.weights import has_weights, repository_directory, snapshot_directory
from workers.contracts.desired import ReplicaSpec
from workers.engines.interface import EngineAdapter, SpecRefusedError, WeightsSource

Source = WeightsSource | StoredWeights
_REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")


class FetchCommand(Struct, frozen=True, kw_only=True):
    """A process that brings them; `told` goes to its standard input."""

    argv: list[str]
    told: bytes = b""


def source_of(spec: ReplicaSpec, adapters: Mapping[str, EngineAdapter]) -> Source | None:
    """None when there is nothing to fetch. A spec that is refused says why when it is started."""
    adapter = adapters.get(spec.engine)
    try:
        return stored_weights_of(spec) or (adapter.weights(spec) if adapter else None)
    except SpecRefusedError:
        return None


def sources_of(spec: ReplicaSpec, adapters: Mapping[str, EngineAdapter]) -> list[Source]:
    """All that must lie here before it starts: its weights, and then its LoRA adapters."""
    weights = source_of(spec, adapters)
    try:
        parts = sources_of_adapters(spec)
    except SpecRefusedError:
        return []
    return parts if weights is None else [weights, *parts]


def sources_of_adapters(spec: ReplicaSpec) -> list[Source]:
    """Raises SpecRefusedError."""
    found = (_source_of_adapter(spec, name) for name in sorted(spec.lora_adapters))
    return [each for each in found if each is not None]


def _source_of_adapter(spec: ReplicaSpec, name: str) -> Source | None:
    """What is neither in a store nor a path is a repository. Raises SpecRefusedError."""
    source, revision = spec.lora_adapters[name], spec.lora_revisions.get(name, "")
    alone = structs.replace(spec, source=source, revision=revision, store=spec.lora_stores.get(name))
    stored = stored_weights_of(alone)
    if stored is not None or not _REPOSITORY.fullmatch(source) or Path(source).exists():
        return stored
    return WeightsSource(repository=source, revision=revision)


def with_local_sources(spec: ReplicaSpec, hub: Path) -> ReplicaSpec:
    """What the engine is started with: whatever was fetched, by where it lies here. Raises SpecRefusedError."""
    local = {name: _local_adapter(spec, name, hub) for name in spec.lora_adapters}
    return structs.replace(local_spec(spec, hub), lora_adapters=local)


def _local_adapter(spec: ReplicaSpec, name: str, hub: Path) -> str:
    source = _source_of_adapter(spec, name)
    if source is None:
        return spec.lora_adapters[name]
    if isinstance(source, StoredWeights):
        return str(whole_directory(hub, source))
    return str(snapshot_directory(hub, source.repository, source.revision))


def lie_here(hub: Path, source: Source) -> bool:
    if isinstance(source, StoredWeights):
        return whole_directory(hub, source).is_dir()
    return has_weights(hub, source.repository, source.revision)


def arrived_bytes(hub: Path, source: Source) -> int:
    """What an earlier download of them has left, and this one need not bring again."""
    if isinstance(source, StoredWeights):
        place = part_directory(hub, source)
    else:
        place = repository_directory(hub, source.repository) / "blobs"
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file())


def fetch_command(hub: Path, source: Source) -> FetchCommand:
    if isinstance(source, StoredWeights):
        what = ["--source", str(source.source), "--digest", source.digest]
        argv = [sys.executable, "-m", "workers.agent.storage.store_fetching", *what, "--hub", str(hub)]
        return FetchCommand(argv=argv, told=msgspec.json.encode(source.address))
    what = ["--repository", source.repository, "--revision", source.revision]
    return FetchCommand(argv=[sys.executable, "-m", "workers.agent.storage.fetching", *what, "--hub", str(hub)])

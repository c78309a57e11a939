"""Where a replica's weights come from, whichever way: whether they lie here, and what brings them."""

import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct

from workers.agent.storage.stored_weights import StoredWeights, part_directory, stored_weights_of, whole_directory
from workers.agent.storage.weights import has_weights, repository_directory
from workers.contracts.desired import ReplicaSpec
from workers.engines.interface import EngineAdapter, SpecRefusedError, WeightsSource

Source = WeightsSource | StoredWeights


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

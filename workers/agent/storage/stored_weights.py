"""Weights of object stores on this node's disk: beside the hub's, a directory for each content of each prefix."""

import hashlib
from pathlib import Path

from msgspec import Struct, structs

from workers.contracts.desired import ReplicaSpec
from workers.contracts.stores import ObjectSource, SourceError, StoreAddress, is_digest, parse_source
from workers.engines.interface import SpecRefusedError

_PREFIX = "s3--"
_PART = ".incomplete"
# In the directory itself, so that it goes where the weights go.
_NOTE = ".tokenyard-key"


class StoredWeights(Struct, frozen=True, kw_only=True):
    """`digest` is of what the version was made of, `address` where its bucket is."""

    source: ObjectSource
    digest: str
    address: StoreAddress

    @property
    def key(self) -> str:
        """Of the version, too."""
        return f"{self.source}@{self.digest}"

    def __str__(self) -> str:
        return str(self.source)


def stored_weights_of(spec: ReplicaSpec) -> StoredWeights | None:
    """None for another kind of source. Raises SpecRefusedError for one of a store that nobody can read."""
    try:
        source = parse_source(spec.source)
    except SourceError as error:
        raise SpecRefusedError(str(error)) from error
    if source is None:
        return None
    if spec.store is None:
        raise SpecRefusedError(f"the installation knows no object store with a bucket {source.bucket}")
    if not is_digest(spec.revision):
        raise SpecRefusedError(f"{source} has no digest: which of its contents is meant, nobody said")
    return StoredWeights(source=source, digest=spec.revision, address=spec.store)


def whole_directory(hub: Path, wanted: StoredWeights) -> Path:
    """Its last part is for people, the hash for the rest."""
    last = wanted.source.prefix.rpartition("/")[2]
    name = "".join(each if each.isalnum() or each in "._-" else "-" for each in last)[:60]
    return hub / f"{_PREFIX}{name}--{hashlib.sha256(wanted.key.encode()).hexdigest()[:32]}"


def part_directory(hub: Path, wanted: StoredWeights) -> Path:
    whole = whole_directory(hub, wanted)
    return whole.with_name(whole.name + _PART)


def note_whole(directory: Path, wanted: StoredWeights) -> None:
    (directory / _NOTE).write_text(wanted.key)


def stored_keys(hub: Path) -> dict[str, Path]:
    """Directories by the keys of versions. A download that has not ended is not there yet."""
    notes = sorted(hub.glob(f"{_PREFIX}*/{_NOTE}"))
    return {note.read_text(errors="replace"): note.parent for note in notes if not note.parent.name.endswith(_PART)}


def local_spec(spec: ReplicaSpec, hub: Path) -> ReplicaSpec:
    """What the engine is started with: it reads files, whichever engine it is. Raises SpecRefusedError."""
    wanted = stored_weights_of(spec)
    if wanted is None:
        return spec
    directory = whole_directory(hub, wanted)
    source = _first_gguf(directory, wanted) if spec.engine == "llamacpp" else directory
    return structs.replace(spec, source=str(source), revision="")


def _first_gguf(directory: Path, wanted: StoredWeights) -> Path:
    """llama.cpp loads a file, and finds the other parts of a split one by itself."""
    files = sorted(directory.rglob("*.gguf"))
    if not files:
        raise SpecRefusedError(f"{wanted} holds no GGUF file, which is what llama.cpp loads")
    return files[0]

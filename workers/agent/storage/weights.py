"""Which weights lie on this node's disk, by the keys of versions: a source, with or without its revision."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from workers.agent.storage.stored_weights import stored_keys

_REPOSITORY = "models--"


def hub_directory(environ: Mapping[str, str]) -> Path:
    """Where Hugging Face's own programs keep what they fetched."""
    home = environ.get("HF_HOME") or Path(environ.get("XDG_CACHE_HOME") or "~/.cache") / "huggingface"
    return Path(environ.get("HF_HUB_CACHE") or Path(home) / "hub").expanduser()


def cached_weights(hub: Path) -> dict[str, int]:
    """Bytes by key: of a revision by its commit, and by the branch or tag that leads there. No download on its way."""
    found = {key: _size_of(directory) for key, directory in stored_keys(hub).items()}
    for repository in sorted(hub.glob(f"{_REPOSITORY}*")):
        name = repository.name.removeprefix(_REPOSITORY).replace("--", "/")
        if any(repository.glob("blobs/*.incomplete")):
            continue
        for snapshot in sorted(repository.glob("snapshots/*")):
            found[f"{name}@{snapshot.name}"] = found[name] = _size_of(snapshot)
        for ref in sorted(repository.glob("refs/*")):
            if ref.is_file() and (size := found.get(f"{name}@{_revision_in(ref)}")):
                found[f"{name}@{ref.name}"] = size
    return found


def repository_directory(hub: Path, repository: str) -> Path:
    return hub / f"{_REPOSITORY}{repository.replace('/', '--')}"


def has_weights(hub: Path, repository: str, revision: str) -> bool:
    """Whole: nothing is on its way."""
    place = repository_directory(hub, repository)
    return snapshot_directory(hub, repository, revision).is_dir() and not any(place.glob("blobs/*.incomplete"))


def snapshot_directory(hub: Path, repository: str, revision: str) -> Path:
    """To which a branch, a tag or a commit leads."""
    place = repository_directory(hub, repository)
    ref = place / "refs" / (revision or "main")
    return place / "snapshots" / (_revision_in(ref) if ref.is_file() else revision or "main")


def _revision_in(ref: Path) -> str:
    """Others write there, too; what is no text leads nowhere."""
    return ref.read_text(errors="replace").replace("\0", "").strip()


def free_disk_bytes(directory: Path) -> int | None:
    """Of the disk that holds it, or will."""
    existing = next((path for path in (directory, *directory.parents) if path.is_dir()), None)
    return shutil.disk_usage(existing).free if existing else None


def _size_of(snapshot: Path) -> int:
    return sum(path.stat().st_size for path in snapshot.rglob("*") if path.is_file())

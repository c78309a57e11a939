"""`python -m workers.agent.storage.fetching --repository ORG/NAME --hub DIR`: a repository's weights onto this disk.

Into the places where Hugging Face's own programs look for them. A download that was cut off goes on where it was. What
it has done so far goes to standard output each second, one JSON object per line: done_bytes, total_bytes.
"""

import argparse
import hashlib
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from workers.agent.storage.downloads import FetchError, Progress, Teller, check_room, locked
from workers.agent.storage.parent import end_with_parent
from workers.agent.storage.weights import repository_directory
from workers.contracts.stores import OTHER_FORMATS

_ENDPOINT = "https://huggingface.co"
_TIMEOUT_S = 30
_TRIES = 5
_FIRST_WAIT_S = 0.5
_CHUNK_BYTES = 4 * 1024 * 1024


class _Large(Struct):
    sha256: str
    size: int


class _File(Struct, rename="camel"):
    rfilename: str
    size: int = 0
    blob_id: str = ""
    lfs: _Large | None = None

    @property
    def blob(self) -> str:
        return self.lfs.sha256 if self.lfs else self.blob_id or hashlib.sha256(self.rfilename.encode()).hexdigest()


class _Listing(Struct):
    sha: str
    siblings: list[_File]


class Repository:
    """One on a hub. Raises FetchError; `sleep` waits between tries."""

    def __init__(self, name: str, *, endpoint: str, token: str, sleep: Callable[[float], None]) -> None:
        self.name = name
        self._endpoint = endpoint.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._sleep = sleep

    def list_files(self, revision: str) -> _Listing:
        url = f"{self._endpoint}/api/models/{self.name}/revision/{revision or 'main'}?blobs=true"
        body = self._again(lambda: self._open(url).read())
        try:
            return msgspec.json.decode(body, type=_Listing)
        except msgspec.DecodeError as error:
            raise FetchError(f"{url} answers with something else: {error}") from error

    def fetch(self, sha: str, file: str, into: Path, told: Callable[[int], None]) -> None:
        url = f"{self._endpoint}/{self.name}/resolve/{sha}/{file}"
        self._again(lambda: self._append(url, into, told))

    def _append(self, url: str, into: Path, told: Callable[[int], None]) -> None:
        have = into.stat().st_size if into.exists() else 0
        with self._open(url, {"Range": f"bytes={have}-"} if have else {}) as answer:
            is_rest = answer.status == 206  # noqa: PLR2004 - Partial Content
            with into.open("ab" if is_rest else "wb") as file:
                while chunk := answer.read1(_CHUNK_BYTES):
                    file.write(chunk)
                    told(file.tell())
                if answer.length:
                    raise ConnectionError(f"{url} broke off, {answer.length} bytes before its end")

    def _open(self, url: str, headers: dict[str, str] | None = None) -> Any:
        request = urllib.request.Request(url, headers=self._headers | (headers or {}))  # noqa: S310 - an operator's word
        return urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310 - likewise

    def _again(self, do: Callable[[], Any]) -> Any:
        """What a server refuses is refused; what breaks is tried again."""
        for number in range(_TRIES):
            try:
                return do()
            except urllib.error.HTTPError as error:
                if error.code < 500:  # noqa: PLR2004 - the server's own failures begin there
                    raise FetchError(f"{error.url} answers {error.code} {error.reason}") from error
                reason = str(error)
            except OSError as error:
                reason = str(error)
            self._sleep(_FIRST_WAIT_S * 2**number)
        raise FetchError(f"gave up after {_TRIES} tries: {reason}")


def fetch_weights(repository: Repository, revision: str, directory: Path, tell: Callable[[Progress], None]) -> None:
    """Into `directory`, the hub's own; one at a time for each repository."""
    place = repository_directory(directory, repository.name)
    for name in ("blobs", "snapshots", "refs"):
        (place / name).mkdir(parents=True, exist_ok=True)
    with locked(place / ".fetching"):
        listing = repository.list_files(revision)
        files = list(_chosen(listing.siblings))
        _check_room(place, files)
        _fetch_all(repository, _Listing(listing.sha, files), place, tell)
        (place / "refs" / (revision or "main")).write_text(listing.sha)


def _fetch_all(repository: Repository, listing: _Listing, place: Path, tell: Callable[[Progress], None]) -> None:
    total, done = sum(file.size for file in listing.siblings), 0
    for file in listing.siblings:
        _fetch_one(repository, listing.sha, file, place / "blobs", partial(_tell_more, tell, done, total))
        done += file.size
        tell(Progress(done, total))
    # Linked last: a snapshot is there when all of it is.
    for file in listing.siblings:
        _link(place / "snapshots" / listing.sha / file.rfilename, place / "blobs" / file.blob)


def _fetch_one(repository: Repository, sha: str, file: _File, blobs: Path, told: Callable[[int], None]) -> None:
    blob = blobs / file.blob
    if not blob.exists():
        part = blob.with_name(f"{blob.name}.incomplete")
        repository.fetch(sha, file.rfilename, part, told)
        _check(part, file)
        part.rename(blob)


def _tell_more(tell: Callable[[Progress], None], before: int, total: int, have: int) -> None:
    tell(Progress(before + have, total))


def _chosen(files: Iterable[_File]) -> Iterable[_File]:
    """One form of the weights. A name that leads out of its directory is nobody's."""
    files = [
        file for file in files if not Path(file.rfilename).is_absolute() and ".." not in Path(file.rfilename).parts
    ]
    has_safetensors = any(file.rfilename.endswith(".safetensors") for file in files)
    return [file for file in files if not (has_safetensors and file.rfilename.endswith(OTHER_FORMATS))]


def _check_room(place: Path, files: list[_File]) -> None:
    missing = sum(file.size - _have(place / "blobs" / file.blob) for file in files)
    check_room(place, missing)


def _have(blob: Path) -> int:
    found = [path for path in (blob, blob.with_name(f"{blob.name}.incomplete")) if path.exists()]
    return found[0].stat().st_size if found else 0


def _check(part: Path, file: _File) -> None:
    size = part.stat().st_size
    is_whole = size == file.size or not file.size
    if is_whole and file.lfs is not None:
        with part.open("rb") as content:
            is_whole = hashlib.file_digest(content, "sha256").hexdigest() == file.lfs.sha256
    if not is_whole:
        part.unlink()
        raise FetchError(f"{file.rfilename} came damaged: {size} bytes, and {file.size} are right")


def _link(link: Path, blob: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if not link.exists():
        link.unlink(missing_ok=True)
        link.symlink_to(os.path.relpath(blob, link.parent))


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.agent.storage.fetching", description=__doc__)
    parser.add_argument("--repository", required=True)
    parser.add_argument("--revision", default="")
    parser.add_argument("--hub", type=Path, required=True)
    chosen = parser.parse_args()
    end_with_parent()
    endpoint, token = os.environ.get("HF_ENDPOINT") or _ENDPOINT, os.environ.get("HF_TOKEN", "")
    repository = Repository(chosen.repository, endpoint=endpoint, token=token, sleep=time.sleep)
    try:
        fetch_weights(repository, chosen.revision, chosen.hub, Teller())
    except (FetchError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - the agent reads it
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

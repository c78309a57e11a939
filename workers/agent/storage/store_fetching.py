"""`python -m workers.agent.storage.store_fetching --source s3://… --digest … --hub DIR`: a bucket's weights.

The store's address comes by standard input, the credentials are those of the environment. A download that was cut off
goes on where it was; the directory is there when all of it is. What it has done so far goes to standard output.
"""

import argparse
import hashlib
import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from workers.agent.storage.downloads import FetchError, Progress, Teller, check_room, locked
from workers.agent.storage.parent import end_with_parent
from workers.agent.storage.stored_weights import StoredWeights, note_whole, part_directory, whole_directory
from workers.contracts.store_client import ObjectStore, StoreAwayError, StoreError
from workers.contracts.stores import ObjectSource, SourceError, StoreAddress, StoredObject, digest_of, parse_source

# Asked for ahead, so that one connection's pace is not the download's: at most 128 MiB in memory.
_PIECE_BYTES = 16 * 1024 * 1024
_PIECES_AHEAD = 8
_TRIES = 5
_FIRST_WAIT_S = 0.5
_MD5_DIGITS = 32

T = TypeVar("T")


class Bucket:
    """Raises FetchError; `sleep` waits between tries."""

    def __init__(self, store: ObjectStore, sleep: Callable[[float], None], piece_bytes: int = _PIECE_BYTES) -> None:
        self._store = store
        self._sleep = sleep
        self._piece_bytes = piece_bytes

    def list_objects(self, source: ObjectSource) -> list[StoredObject]:
        return self._again(lambda: self._store.list_objects(source))

    def append(self, each: StoredObject, part: Path, told: Callable[[int], None]) -> None:
        """From where the file ends. Pieces come side by side, and are written in their order."""
        with part.open("ab") as file, ThreadPoolExecutor(_PIECES_AHEAD) as pool:
            try:
                for piece in self._pieces(each, file.tell(), pool):
                    file.write(piece)
                    told(file.tell())
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _pieces(self, each: StoredObject, have: int, pool: ThreadPoolExecutor) -> Iterator[bytes]:
        ahead: deque[Future[bytes]] = deque()
        for begin in range(have, each.size, self._piece_bytes):
            ahead.append(pool.submit(self._read, each, begin))
            if len(ahead) == _PIECES_AHEAD:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()

    def _read(self, each: StoredObject, begin: int) -> bytes:
        end = min(begin + self._piece_bytes, each.size)
        return self._again(lambda: self._store.read(each, begin, end))

    def _again(self, do: Callable[[], T]) -> T:
        """What a store refuses is refused; what breaks is tried again."""
        for number in range(_TRIES):
            try:
                return do()
            except StoreAwayError as error:
                reason = str(error)
            except StoreError as error:
                raise FetchError(str(error)) from error
            self._sleep(_FIRST_WAIT_S * 2**number)
        raise FetchError(f"gave up after {_TRIES} tries: {reason}")


def fetch_stored_weights(bucket: Bucket, wanted: StoredWeights, hub: Path, tell: Callable[[Progress], None]) -> None:
    """One at a time for the same weights. Raises FetchError where the bucket holds others than the version's."""
    part = part_directory(hub, wanted)
    part.mkdir(parents=True, exist_ok=True)
    with locked(part / "lock"):
        if not whole_directory(hub, wanted).is_dir():
            objects = bucket.list_objects(wanted.source)
            _check_digest(wanted, objects)
            check_room(part, sum(each.size - _have(part, each) for each in objects))
            _fetch_all(bucket, objects, part, tell)
            note_whole(part / "files", wanted)
            (part / "files").rename(whole_directory(hub, wanted))
    shutil.rmtree(part, ignore_errors=True)


def _check_digest(wanted: StoredWeights, objects: list[StoredObject]) -> None:
    found = digest_of(objects)
    if found != wanted.digest:
        raise FetchError(
            f"{wanted.source} holds other objects now than when this version was made ({found[:12]}, not "
            f"{wanted.digest[:12]}): make another version of it"
        )


def _fetch_all(bucket: Bucket, objects: list[StoredObject], part: Path, tell: Callable[[Progress], None]) -> None:
    total, done = sum(each.size for each in objects), 0
    for each in objects:
        _fetch_one(bucket, each, part, partial(_tell_more, tell, done, total))
        done += each.size
        tell(Progress(done, total))


def _tell_more(tell: Callable[[Progress], None], before: int, total: int, have: int) -> None:
    tell(Progress(before + have, total))


def _fetch_one(bucket: Bucket, each: StoredObject, part: Path, told: Callable[[int], None]) -> None:
    whole, coming = part / "files" / each.name, _coming(part, each)
    if whole.exists():
        return
    whole.parent.mkdir(parents=True, exist_ok=True)
    bucket.append(each, coming, told)
    if not _is_as_stored(coming, each):
        _fetch_once_more(bucket, each, coming, told)
    coming.rename(whole)


def _is_as_stored(coming: Path, each: StoredObject) -> bool:
    """An ETag is the content's MD5 unless it came in parts, or is encrypted with a key of the customer's."""
    return len(each.etag) != _MD5_DIGITS or each.etag == _md5_of(coming)


def _fetch_once_more(bucket: Bucket, each: StoredObject, coming: Path, told: Callable[[int], None]) -> None:
    """The same bytes twice are what the store holds, and its ETags are no MD5; other bytes came damaged."""
    before = _md5_of(coming)
    coming.unlink()
    bucket.append(each, coming, told)
    if _md5_of(coming) not in (before, each.etag):
        coming.unlink()
        raise FetchError(f"{each.key} came damaged, twice and differently")


def _md5_of(path: Path) -> str:
    with path.open("rb") as content:
        return hashlib.file_digest(content, partial(hashlib.new, "md5", usedforsecurity=False)).hexdigest()


def _coming(part: Path, each: StoredObject) -> Path:
    return part / f"{hashlib.sha256(each.name.encode()).hexdigest()[:32]}.incomplete"


def _have(part: Path, each: StoredObject) -> int:
    found = [path for path in (part / "files" / each.name, _coming(part, each)) if path.exists()]
    return found[0].stat().st_size if found else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m workers.agent.storage.store_fetching", description=__doc__)
    parser.add_argument("--source", required=True)
    parser.add_argument("--digest", help="of what the version was made of")
    parser.add_argument("--hub", type=Path)
    parser.add_argument("--list", action="store_true", help="prints the digest of what lies there, and fetches nothing")
    chosen = parser.parse_args()
    if not chosen.list and not (chosen.digest and chosen.hub):
        parser.error("--digest and --hub say what to fetch, and whereto; or --list")
    try:
        _run(chosen, msgspec.json.decode(sys.stdin.buffer.read(), type=StoreAddress))
    except (FetchError, StoreError, SourceError, msgspec.MsgspecError, OSError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - the agent reads it
        return 1
    return 0


def _run(chosen: argparse.Namespace, address: StoreAddress) -> None:
    source = parse_source(chosen.source)
    if source is None:
        raise SourceError(f"{chosen.source} is no object store's")
    bucket = Bucket(ObjectStore(address, source.bucket, os.environ), time.sleep)
    if chosen.list:
        print(digest_of(bucket.list_objects(source)))  # noqa: T201 - for people
    else:
        end_with_parent()
        wanted = StoredWeights(source=source, digest=chosen.digest, address=address)
        fetch_stored_weights(bucket, wanted, chosen.hub, Teller())


if __name__ == "__main__":
    sys.exit(main())

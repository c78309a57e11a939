"""The snapshot and the endpoints as they change on disk."""

import logging
from collections.abc import Callable
from pathlib import Path

import msgspec

from workers.contracts import layout
from workers.contracts.endpoints import Endpoint, EndpointList
from workers.contracts.signing import SnapshotRefusedError, open_plain, open_signed
from workers.contracts.snapshot import Snapshot

logger = logging.getLogger(__name__)

LAST_GOOD_SUFFIX = ".good"


class WatchedFile:
    """Tells whether a file is another one than at the last look. Files here are replaced whole, never written to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, int, int] | None = None

    def read_if_changed(self) -> bytes | None:
        try:
            stat = self.path.stat()
            identity = (stat.st_ino, stat.st_mtime_ns, stat.st_size)
            if identity == self._seen:
                return None
            content = self.path.read_bytes()
        except OSError:
            return None
        self._seen = identity
        return content


class SnapshotFile:
    """The newest acceptable snapshot. A refused one is reported in `error` and leaves the last good one in force.

    `read_public_key` returns the key that must have signed it, or None when plain snapshots are taken.
    """

    def __init__(self, path: Path, read_public_key: Callable[[], str] | None, *, keep_last_good: bool) -> None:
        self._file = WatchedFile(path)
        self._last_good = path.with_name(path.name + LAST_GOOD_SUFFIX) if keep_last_good else None
        self._read_public_key = read_public_key
        self.error = f"there is no {path.name} yet"

    def load_last_good(self) -> Snapshot | None:
        """For the start, when the newest file is missing or refused."""
        try:
            return self._open(self._last_good.read_bytes()) if self._last_good is not None else None
        except (OSError, SnapshotRefusedError):
            return None

    def read_if_changed(self) -> Snapshot | None:
        content = self._file.read_if_changed()
        if content is None:
            return None
        try:
            snapshot = self._open(content)
        except (OSError, SnapshotRefusedError) as error:
            self.error = str(error)
            logger.warning("snapshot refused: %s", error)
            return None
        self.error = ""
        if self._last_good is not None:
            layout.write_whole(self._last_good, content)
        return snapshot

    def _open(self, content: bytes) -> Snapshot:
        if self._read_public_key is None:
            return open_plain(content)
        return open_signed(content, self._read_public_key())


class EndpointsFile:
    """What the agent offers."""

    def __init__(self, path: Path) -> None:
        self._file = WatchedFile(path)

    def read_if_changed(self) -> list[Endpoint] | None:
        content = self._file.read_if_changed()
        if content is None:
            return None
        try:
            offered = msgspec.json.decode(content, type=EndpointList)
        except msgspec.DecodeError as error:
            logger.warning("%s refused: %s", self._file.path.name, error)
            return None
        return [*offered.endpoints, *offered.coming]

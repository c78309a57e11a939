"""What every download onto this node has in common, wherever it comes from."""

import fcntl
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from workers.contracts.telemetry import DISK_MARGIN_BYTES

_TOLD_EACH_S = 1.0
_GIB = 1024**3


class FetchError(Exception):
    """The message is for people."""


class Progress(Struct):
    done_bytes: int
    total_bytes: int


class Teller:
    """Writes it to standard output, a line each second."""

    def __init__(self) -> None:
        self._told_at = 0.0

    def __call__(self, progress: Progress) -> None:
        is_end = progress.done_bytes == progress.total_bytes
        if is_end or time.monotonic() - self._told_at >= _TOLD_EACH_S:
            self._told_at = time.monotonic()
            sys.stdout.write(msgspec.json.encode(progress).decode() + "\n")
            sys.stdout.flush()


def check_room(place: Path, missing_bytes: int) -> None:
    """Raises FetchError when the disk does not hold what is to come."""
    free = shutil.disk_usage(place).free
    if missing_bytes and missing_bytes + DISK_MARGIN_BYTES > free:
        raise FetchError(
            f"{missing_bytes / _GIB:.1f} GiB are to be fetched, and {free / _GIB:.1f} GiB of the disk are free "
            f"({DISK_MARGIN_BYTES / _GIB:.0f} GiB stay so)"
        )


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """One process at a time."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

"""The log files of the stack: one per process, bounded, shown together with a prefix each.

A process writes to its file itself, so it does not lose its log, nor end, when the supervisor is killed.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

MAX_LOG_BYTES = 10_000_000
_POLL_S = 0.2
_READ_BYTES = 65_536
_TAIL_BYTES = 16_384
_COLOURS = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_NAME_WIDTH = 10


def log_file(directory: Path, name: str) -> Path:
    return directory / f"{name}.log"


def tail(path: Path, lines: int) -> list[str]:
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        return file.read().decode(errors="replace").splitlines()[-lines:]


def rotate(directory: Path) -> None:
    """Keeps the newest MAX_LOG_BYTES of each log twice at most. The writers have their files open for appending."""
    for path in directory.glob("*.log"):
        if path.stat().st_size > MAX_LOG_BYTES:
            shutil.copyfile(path, path.with_suffix(".log.1"))
            os.truncate(path, 0)


def prefix(name: str, *, has_colour: bool) -> str:
    text = f"{name:<{_NAME_WIDTH}} │ "
    if not has_colour:
        return text
    colour = _COLOURS[sum(name.encode()) % len(_COLOURS)]
    return f"\x1b[{colour}m{text}\x1b[0m"


class Follower:
    """Complete lines that were added to a file since it was looked at last."""

    def __init__(self, path: Path, *, from_start: bool) -> None:
        self._path = path
        self._offset = 0 if from_start else path.stat().st_size
        self._partial = b""

    def new_lines(self) -> list[str]:
        try:
            chunk = self._read()
        except FileNotFoundError:  # somebody tidied up: what comes is shown when the file is there again
            self._offset = 0
            return []
        self._offset += len(chunk)
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        return [line.decode(errors="replace") for line in lines]

    def _read(self) -> bytes:
        with self._path.open("rb") as file:
            if file.seek(0, os.SEEK_END) < self._offset:
                self._offset = 0
            file.seek(self._offset)
            return file.read(_READ_BYTES)


class DirectoryFollower:
    """All logs of a directory, also those that appear later."""

    def __init__(self, directory: Path, *, has_colour: bool) -> None:
        self._directory = directory
        self._has_colour = has_colour
        self._followers = {path: Follower(path, from_start=False) for path in self._paths()}

    def recent_lines(self, count: int) -> Iterator[str]:
        for path in self._followers:
            yield from self._prefixed(path, tail(path, count))

    def new_lines(self) -> Iterator[str]:
        for path in self._paths():
            if path not in self._followers:
                self._followers[path] = Follower(path, from_start=True)
            yield from self._prefixed(path, self._followers[path].new_lines())

    def _paths(self) -> list[Path]:
        return sorted(self._directory.glob("*.log"))

    def _prefixed(self, path: Path, lines: list[str]) -> Iterator[str]:
        start = prefix(path.stem, has_colour=self._has_colour)
        return (start + line for line in lines)


async def follow(follower: DirectoryFollower, show: Callable[[str], None]) -> None:
    """Shows what is added, until cancelled."""
    while True:
        for line in follower.new_lines():
            show(line)
        await asyncio.sleep(_POLL_S)

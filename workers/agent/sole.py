"""One agent to a node's directory: two would each start and stop what the other looks after."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class TakenError(Exception):
    """The message is for the person who started it."""


@contextmanager
def sole_agent(directory: Path) -> Iterator[None]:
    """Raises TakenError while another one has it. The lock ends with its process, and needs no room on the disk."""
    directory.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        _lock(descriptor, directory)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, directory: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise TakenError(f"another agent looks after {directory} already") from error

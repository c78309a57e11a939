"""Usage records → disk. A record is in the kernel's hands before the last byte of its answer leaves.

`write` without `fsync` survives the death of this process at any moment; only a power cut can lose the last second,
for which `sync` is called once a second. Format and division of labour with the agent: workers/contracts/spool.py.
"""

import errno
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from workers.contracts.spool import segment_name
from workers.contracts.usage import UsageRecord

SEGMENT_RECORDS = 10_000


class OpenRequests(Protocol):
    """Where a request is noted until its record is in the spool."""

    def release(self, records: Sequence[UsageRecord]) -> None: ...
    def keep(self, record: UsageRecord, line: bytes) -> None: ...


class Spool:
    """Appends to segments.

    When the disk refuses, records wait in memory and `is_accepting` turns False, which stops admission: what may still
    come is bounded by what is under way. They wait in the journal too, which has its room already.
    """

    def __init__(self, directory: Path, boot_id: str, journal: OpenRequests) -> None:
        self._directory = directory
        self._boot_id = boot_id
        self._journal = journal
        self._fd = -1
        self._in_segment = 0
        self._left: list[int] = []  # descriptors of segments that are full, and to be synced once more
        self._waiting: list[bytes] = []
        self._waiting_records: list[UsageRecord] = []
        self._encode = msgspec.json.Encoder().encode
        self.written = 0
        self._synced = 0
        self.error = ""
        directory.mkdir(parents=True, exist_ok=True)

    @property
    def is_accepting(self) -> bool:
        return not self._waiting

    def append_all(self, records: Sequence[UsageRecord]) -> None:
        """In one write. Sequences follow each other."""
        was_accepting = self.is_accepting
        self._waiting += map(self._encode, records)
        self._waiting_records += records
        if was_accepting:
            self.retry()
        if self._waiting:
            self._keep(len(records))

    def retry(self) -> None:
        """Writes what waits; once a second, that is what the disk refused before."""
        while self._waiting and self._write():
            pass

    def sync(self) -> None:
        self.begin_sync()()

    def begin_sync(self) -> Callable[[], None]:
        """What is left to do may take long and may be done in another thread, whatever happens to the segment."""
        if self._synced == self.written and not self._left:
            return _do_nothing
        left, self._left = self._left, []
        current = [os.dup(self._fd)] if self._fd >= 0 else []
        return partial(self._finish_sync, left, current, self.written)

    def _finish_sync(self, left: list[int], current: list[int], written: int) -> None:
        """Raises OSError when the disk fails; then the same is to be done again."""
        try:
            for fd in left + current:
                os.fsync(fd)
        except OSError:
            self._left += left
            _close(current)
            raise
        _close(left + current)
        self._synced = max(self._synced, written)

    def close(self) -> None:
        self.retry()
        self._close_segment()
        self.sync()

    def _write(self) -> bool:
        """Writes as many of the waiting lines as the segment takes; False when the disk refused."""
        try:
            if self._fd < 0 or self._in_segment >= SEGMENT_RECORDS:
                self._open_segment(self._waiting_records[0].sequence)
            lines = self._waiting[: SEGMENT_RECORDS - self._in_segment]
            content = b"\n".join(lines) + b"\n"
            written_bytes = os.write(self._fd, content)
            is_whole = written_bytes == len(content)
            self._note_written(len(lines) if is_whole else content.count(b"\n", 0, written_bytes))
            _require(written_bytes, len(content))
        except OSError as error:
            self.error = f"usage spool: {error}"
            self._close_segment()  # a torn line may only stand at the end of a segment
            return False
        self.error = ""
        return True

    def _keep(self, newest: int) -> None:
        for record, line in zip(self._waiting_records[-newest:], self._waiting[-newest:], strict=True):
            self._journal.keep(record, line)

    def _note_written(self, records: int) -> None:
        written, self._waiting_records = self._waiting_records[:records], self._waiting_records[records:]
        self._waiting = self._waiting[records:]
        self._journal.release(written)
        self._in_segment += records
        self.written += records

    def _open_segment(self, sequence: int) -> None:
        self._close_segment()
        path = self._directory / segment_name(self._boot_id, sequence)
        # A segment of this name exists only if its very first line was torn: start it afresh.
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o640)
        self._in_segment = 0

    def _close_segment(self) -> None:
        """What was written to it since the last sync is synced with the next, and only then is it closed."""
        if self._fd >= 0 and self._in_segment:
            self._left.append(self._fd)
        elif self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _require(written_bytes: int, length_bytes: int) -> None:
    if written_bytes < length_bytes:
        raise OSError(errno.ENOSPC, f"wrote {written_bytes} of {length_bytes} bytes")


def _close(descriptors: Sequence[int]) -> None:
    for fd in descriptors:
        os.close(fd)


def _do_nothing() -> None:
    """Nothing was written since."""

"""Usage spool → control plane: at least once, never lost, in the order of writing.

A batch is what lies unacknowledged in the oldest segments. Only when the control plane has said that it is stored do
the segments' .ack files advance; a crash in between sends it again, and the control plane stores each record once.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
from msgspec import Struct

from workers.contracts.layout import write_whole
from workers.contracts.link import UsageAck, UsageBatch
from workers.contracts.salvage import has_journal, salvage_all
from workers.contracts.spool import ACK_SUFFIX, boot_id_of, decode_lines, list_segments
from workers.contracts.usage import UsageRecord

log = logging.getLogger(__name__)

MAX_RECORDS = 1000
# Together well below what the control plane takes in one frame.
_MAX_CHUNK_BYTES = 1024 * 1024
_MAX_BATCH_BYTES = 2 * 1024 * 1024
_POLL_S = 1.0
_ACK_TIMEOUT_S = 10.0
_REJECTED_FILE = "rejected.lines"
_MAX_DAMAGED = 100


class Batch(Struct, frozen=True):
    """`offsets` say how far each segment is acknowledged once the batch is; `damaged` are lines that are no records."""

    records: list[UsageRecord]
    offsets: dict[Path, int]
    damaged: list[bytes] = []


class UsageSpool:
    """The reader's side of the spool directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def next_batch(self) -> Batch:
        records: list[UsageRecord] = []
        offsets: dict[Path, int] = {}
        size_bytes = 0
        for segment in list_segments(self._directory):
            if len(records) >= MAX_RECORDS or size_bytes >= _MAX_BATCH_BYTES:
                break
            start = _acknowledged(segment)
            taken, end = self._read(segment, start, MAX_RECORDS - len(records))
            records += taken
            size_bytes += end - start
            if taken:
                offsets[segment] = end
        return Batch(records, offsets, self._next_damaged(offsets))

    def _next_damaged(self, offsets: dict[Path, int]) -> list[bytes]:
        """Of the lines put aside, those that the control plane has not seen yet."""
        rejected = self._directory / _REJECTED_FILE
        if not rejected.exists():
            return []
        start = _acknowledged(rejected)
        lines = [line for line in _chunk(rejected, start).splitlines(keepends=True) if line.endswith(b"\n")]
        taken = lines[:_MAX_DAMAGED]
        if taken:
            offsets[rejected] = start + sum(map(len, taken))
        return taken

    def salvage(self) -> None:
        """Records of gateways that died; the next one may never come."""
        salvage_all(self._directory)

    def acknowledge(self, batch: Batch) -> None:
        for segment, offset in batch.offsets.items():
            write_whole(_ack_path(segment), str(offset).encode())

    def delete_finished(self, current_boot_id: str | None) -> None:
        """Segments that nobody writes to any more and that are acknowledged to their last whole line."""
        segments = list_segments(self._directory)
        newest_boot_id = max(current_boot_id or "", *map(boot_id_of, segments[-1:]), "")
        for index, segment in enumerate(segments):
            boot_id = boot_id_of(segment)
            has_later = index + 1 < len(segments) and boot_id_of(segments[index + 1]) == boot_id
            # Names sort by time. While there is a journal the process writes, or a salvager may still look here.
            is_over = boot_id < newest_boot_id and not has_journal(self._directory, boot_id)
            if (has_later or is_over) and _acknowledged(segment) >= _whole_bytes(segment):
                segment.unlink()
                _ack_path(segment).unlink(missing_ok=True)

    def _read(self, segment: Path, offset: int, limit: int) -> tuple[list[UsageRecord], int]:
        """Whole records from `offset` on, and where they end. A damaged line is put aside and passed over."""
        while True:
            chunk = _chunk(segment, offset)
            try:
                records, taken_bytes = decode_lines(chunk, limit)
            except msgspec.DecodeError:
                records, taken_bytes = _before_damage(chunk, limit)
                if not records:
                    offset = self._put_aside(segment, chunk, offset)
                    continue
            return records, offset + taken_bytes

    def _put_aside(self, segment: Path, chunk: bytes, offset: int) -> int:
        """The offset behind the first line, which counts as acknowledged."""
        line = chunk[: chunk.index(b"\n") + 1]
        log.error("a damaged usage record of %s was put aside in %s", segment.name, _REJECTED_FILE)
        with (self._directory / _REJECTED_FILE).open("ab") as file:
            file.write(line)
        write_whole(_ack_path(segment), str(offset + len(line)).encode())
        return offset + len(line)


class UsageShipper:
    """One batch is under way at a time. `send` raises ConnectionError when there is no link."""

    def __init__(
        self, spool: UsageSpool, send: Callable[[UsageBatch], Awaitable[None]], new_id: Callable[[], str]
    ) -> None:
        self._spool = spool
        self._send = send
        self._new_id = new_id
        self._awaited: tuple[str, asyncio.Future[UsageAck]] | None = None
        self._complaint = ""

    def acknowledged(self, ack: UsageAck) -> None:
        """An answer to a batch given up meanwhile is of no use: its records are under way again."""
        if self._awaited and self._awaited[0] == ack.batch_id and not self._awaited[1].done():
            self._awaited[1].set_result(ack)

    async def run(self, current_boot_id: Callable[[], str | None]) -> None:
        while True:
            if not await self._turn(current_boot_id()):
                await asyncio.sleep(_POLL_S)

    async def _turn(self, boot_id: str | None) -> bool:
        """Whether there is more to do at once."""
        try:
            self._spool.salvage()
            batch = self._spool.next_batch()
            if batch.records or batch.damaged:
                await self._ship(batch)
            self._spool.delete_finished(boot_id)
        except OSError as error:
            self._complain(f"usage records wait: {error or type(error).__name__}")
            return False
        self._complaint = ""
        return len(batch.records) == MAX_RECORDS

    def _complain(self, complaint: str) -> None:
        """Once, not each second."""
        if complaint != self._complaint:
            log.warning("%s", complaint)
        self._complaint = complaint

    async def _ship(self, batch: Batch) -> None:
        batch_id = self._new_id()
        future: asyncio.Future[UsageAck] = asyncio.get_running_loop().create_future()
        self._awaited = (batch_id, future)
        try:
            damaged = [line.decode("utf-8", "replace").rstrip("\n") for line in batch.damaged]
            await self._send(UsageBatch(batch_id=batch_id, records=batch.records, damaged=damaged))
            async with asyncio.timeout(_ACK_TIMEOUT_S):
                ack = await future
        finally:
            self._awaited = None
        if ack.stored + ack.duplicate < len(batch.records):
            raise ConnectionError(f"{ack.stored + ack.duplicate} of {len(batch.records)} records were taken")
        self._spool.acknowledge(batch)


def _chunk(segment: Path, offset: int) -> bytes:
    with segment.open("rb") as file:
        file.seek(offset)
        return file.read(_MAX_CHUNK_BYTES)


def _before_damage(chunk: bytes, limit: int) -> tuple[list[UsageRecord], int]:
    records: list[UsageRecord] = []
    taken_bytes = 0
    for line in chunk.splitlines(keepends=True)[:limit]:
        try:
            records += decode_lines(line, 1)[0]
        except msgspec.DecodeError:
            break
        taken_bytes += len(line)
    return records, taken_bytes


def _ack_path(segment: Path) -> Path:
    return segment.with_name(segment.name + ACK_SUFFIX)


def _acknowledged(segment: Path) -> int:
    """0, which sends again, when the file is missing or damaged."""
    try:
        return int(_ack_path(segment).read_text())
    except (FileNotFoundError, ValueError):
        return 0


def _whole_bytes(segment: Path) -> int:
    """Up to the last line feed: what follows is a torn line and no record."""
    return segment.read_bytes().rfind(b"\n") + 1

"""Settles what a gateway had under way when it died: its journal becomes usage records in its spool.

Any process of the node may do it, at any time and more than once. A journal is salvaged under its own lock, the records
appear in one rename, and the journal goes last: a salvager that is killed in between leaves work for the next one,
which finds the records by their ids.
"""

import fcntl
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from msgspec import Struct

from workers.contracts.journal import JOURNAL_SUFFIX, Interrupted, Journal, JournalError, read_journal
from workers.contracts.layout import write_whole
from workers.contracts.recording import record_of, unheard, unheard_id
from workers.contracts.spool import SEGMENT_SUFFIX, first_sequence_of, segment_name
from workers.contracts.usage import UsageRecord

log = logging.getLogger(__name__)

ERROR_CODE = "gateway_died"
_NO_ANSWER = 502  # what a proxy in front of the gateway would have told the client


class _Written(Struct):
    record_id: str
    sequence: int


_decode_written = msgspec.json.Decoder(_Written).decode


def salvage_all(spool: Path) -> int:
    """Of every dead gateway; returns how many records were added."""
    return sum(_salvage(path) for path in sorted(spool.glob(f"*{JOURNAL_SUFFIX}")))


def has_journal(spool: Path, boot_id: str) -> bool:
    """Whether that process still writes, or has left something to salvage."""
    return (spool / f"{boot_id}{JOURNAL_SUFFIX}").exists()


def _salvage(path: Path) -> int:
    with _locked(path) as content:
        if content is None:
            return 0
        try:
            journal = read_journal(content)
        except JournalError as error:
            log.warning("%s is put aside: %s", path.name, error)
            path.rename(path.with_suffix(".damaged"))
            return 0
        records = records_of(journal, *_written_last(path.parent, journal.origin.boot_id))
        _add(path.parent, records)
        path.unlink()
    if records or journal.unreadable:
        log.warning("%s: %s records salvaged, %s slots unreadable", path.name, len(records), journal.unreadable)
    return len(records)


def records_of(journal: Journal, last_sequence: int, written_ids: frozenset[str]) -> list[UsageRecord]:
    """What the spool lacks. The numbers go on where the dead gateway's own ended."""
    settled = sorted(journal.settled, key=lambda record: record.sequence)
    known = written_ids | {record.record_id for record in settled}
    records = [record for record in settled if _ids_of(record).isdisjoint(written_ids)]
    interrupted = sorted(journal.interrupted, key=lambda item: item.settlement.arrived_at)
    left = [_record(journal, item) for item in interrupted if item.settlement.record_id not in known]
    records += [record for record in left if record.record_id not in known]
    return [
        msgspec.structs.replace(record, sequence=sequence) for sequence, record in enumerate(records, last_sequence + 1)
    ]


def _ids_of(record: UsageRecord) -> set[str]:
    """It may have been written as one that nobody has heard of, just before its slot was to be freed."""
    return {record.record_id, unheard_id(record.record_id, record.arrived_at)}


def _record(journal: Journal, item: Interrupted) -> UsageRecord:
    """What another gateway asked for it asks for elsewhere, where nothing of the answer had gone out."""
    settlement = item.settlement
    has_begun = settlement.is_stream and settlement.first_token_at is not None
    latest = (settlement.arrived_at, settlement.dispatched_at or 0.0, settlement.first_token_at or 0.0)
    record = record_of(
        settlement,
        item.used,
        journal.origin,
        sequence=0,
        now=max(journal.alive_at, *latest),
        outcome="failed",
        status=200 if has_begun else _NO_ANSWER,
        error_code=ERROR_CODE,
    )
    return unheard(record, ERROR_CODE) if settlement.awaits_delivery and not has_begun else record


@contextmanager
def _locked(path: Path) -> Iterator[bytes | None]:
    """The journal's content, or None while its writer or another salvager has it."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        yield None
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield path.read_bytes() if _is_still(fd, path) else None
    except BlockingIOError:
        yield None
    finally:
        os.close(fd)


def _is_still(fd: int, path: Path) -> bool:
    """False when another salvager was done between our opening and our locking it."""
    try:
        return os.fstat(fd).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _written_last(spool: Path, boot_id: str) -> tuple[int, frozenset[str]]:
    """The last number that was written, and the ids of the last segment.

    Older segments need no look: a slot is freed right after the write that brought its record to the spool.
    """
    segments = sorted(spool.glob(f"{boot_id}-*{SEGMENT_SUFFIX}"))
    if not segments:
        return 0, frozenset()
    lines = segments[-1].read_bytes().split(b"\n")[:-1]
    written = [found for line in lines if (found := _read_written(line)) is not None]
    last_sequence = first_sequence_of(segments[-1]) - 1 + len(lines)
    return max([last_sequence, *[item.sequence for item in written]]), frozenset(item.record_id for item in written)


def _read_written(line: bytes) -> _Written | None:
    try:
        return _decode_written(line)
    except msgspec.DecodeError:
        return None


def _add(spool: Path, records: list[UsageRecord]) -> None:
    if records:
        lines = [msgspec.json.encode(record) + b"\n" for record in records]
        write_whole(spool / segment_name(records[0].boot_id, records[0].sequence), b"".join(lines))

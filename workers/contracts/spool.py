"""Format of the usage spool: append-only segment files of JSON lines, one UsageRecord each.

A segment is `<boot_id>-<first sequence, 12 digits>.jsonl`; the writer closes it by opening the next. The reader keeps
how far each segment is acknowledged in `<segment>.ack` (a decimal byte offset) and deletes a closed segment once all of
it is acknowledged. A torn last line (a crash in the middle of a write) has no newline and is not a record.
"""

from pathlib import Path

import msgspec

from workers.contracts.usage import UsageRecord

SEGMENT_SUFFIX = ".jsonl"
ACK_SUFFIX = ".ack"

_decode = msgspec.json.Decoder(UsageRecord).decode


def segment_name(boot_id: str, first_sequence: int) -> str:
    return f"{boot_id}-{first_sequence:012d}{SEGMENT_SUFFIX}"


def first_sequence_of(segment: Path) -> int:
    return int(segment.stem.rpartition("-")[2])


def boot_id_of(segment: Path) -> str:
    return segment.stem.rpartition("-")[0]


def list_segments(directory: Path) -> list[Path]:
    """Oldest first: boot ids are UUIDv7, so names sort by time."""
    return sorted(directory.glob(f"*{SEGMENT_SUFFIX}"))


def decode_lines(chunk: bytes, limit: int) -> tuple[list[UsageRecord], int]:
    """At most `limit` records from the start of `chunk`, and how many bytes they take."""
    records: list[UsageRecord] = []
    taken_bytes = 0
    while len(records) < limit:
        end = chunk.find(b"\n", taken_bytes)
        if end < 0:
            break
        records.append(_decode(chunk[taken_bytes:end]))
        taken_bytes = end + 1
    return records, taken_bytes

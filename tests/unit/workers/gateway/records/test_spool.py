"""The spool's own directory is the only thing it touches, so these tests write files and nothing else."""

import errno
import os
from pathlib import Path

import msgspec
import pytest

from tests.unit.workers.gateway.records.test_metering import Clock, MemorySpool, meter_with, settlement
from workers.contracts.settlement import NOTHING
from workers.contracts.spool import decode_lines, list_segments
from workers.gateway.records import spool as spool_module
from workers.gateway.records.spool import Spool

pytestmark = pytest.mark.unit


class NoJournal:
    def __init__(self):
        self.released = []
        self.kept = []

    def release(self, records):
        self.released += records

    def keep(self, record, line):
        self.kept.append(msgspec.json.decode(line)["record_id"])


def make_records(count):
    memory = MemorySpool()
    meter = meter_with(memory, Clock())
    for _ in range(count):
        meter.settle(settlement(), NOTHING, "refused", 429)
    return memory.records


def open_descriptors():
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def read_all(directory):
    found = []
    for segment in list_segments(directory):
        found += decode_lines(segment.read_bytes(), 10_000)[0]
    return found


def test_records_are_on_disk_as_soon_as_they_are_appended(tmp_path):
    spool = Spool(tmp_path, "boot", NoJournal())
    records = make_records(3)
    for record in records:
        spool.append_all([record])
    assert read_all(tmp_path) == records


def test_segments_are_closed_when_they_are_full(tmp_path, monkeypatch):
    monkeypatch.setattr(spool_module, "SEGMENT_RECORDS", 2)
    spool = Spool(tmp_path, "boot", NoJournal())
    records = make_records(5)
    for record in records:
        spool.append_all([record])
    assert [path.name for path in list_segments(tmp_path)] == [
        "boot-000000000001.jsonl",
        "boot-000000000003.jsonl",
        "boot-000000000005.jsonl",
    ]
    assert read_all(tmp_path) == records


def test_a_full_disk_stops_admission_and_loses_nothing(tmp_path, monkeypatch):
    spool = Spool(tmp_path, "boot", NoJournal())
    records = make_records(4)
    spool.append_all([records[0]])
    real_write = os.write

    def full(fd, data):
        real_write(fd, data[:10])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    spool.append_all([records[1]])
    spool.append_all([records[2]])
    assert not spool.is_accepting
    assert "No space left" in spool.error
    monkeypatch.setattr(os, "write", real_write)
    spool.retry()
    spool.append_all([records[3]])
    assert spool.is_accepting
    assert spool.error == ""
    assert read_all(tmp_path) == records


def test_a_disk_that_takes_half_of_a_write_gets_each_record_once(tmp_path, monkeypatch):
    spool = Spool(tmp_path, "boot", NoJournal())
    records = make_records(3)
    length_bytes = len(msgspec.json.encode(records[0])) + 1
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real_write(fd, data[: length_bytes + 10]))
    spool.append_all(records)
    assert not spool.is_accepting
    monkeypatch.setattr(os, "write", real_write)
    spool.retry()
    assert spool.is_accepting
    assert read_all(tmp_path) == records
    assert [path.name for path in list_segments(tmp_path)] == ["boot-000000000001.jsonl", "boot-000000000002.jsonl"]


def test_a_sync_may_end_after_its_segment_was_closed(tmp_path):
    spool = Spool(tmp_path, "boot", NoJournal())
    spool.append_all(make_records(1))
    finish = spool.begin_sync()
    spool.close()
    finish()


def test_only_what_was_written_since_the_last_sync_is_synced(tmp_path, monkeypatch):
    synced = []
    monkeypatch.setattr(os, "fsync", synced.append)
    spool = Spool(tmp_path, "boot", NoJournal())
    spool.append_all(make_records(1))
    spool.sync()
    spool.sync()
    assert len(synced) == 1
    spool.append_all(make_records(1))
    spool.sync()
    assert len(synced) == 2


def test_what_was_written_to_a_segment_before_the_next_was_opened_is_synced_too(tmp_path, monkeypatch):
    monkeypatch.setattr(spool_module, "SEGMENT_RECORDS", 2)
    synced, open_before = [], open_descriptors()
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    spool = Spool(tmp_path, "boot", NoJournal())
    spool.append_all(make_records(5))
    spool.sync()
    assert sorted(synced) == sorted(path.stat().st_ino for path in list_segments(tmp_path))
    assert len(synced) == 3
    spool.close()
    assert open_descriptors() == open_before


def test_what_the_disk_did_not_sync_is_synced_the_next_time(tmp_path, monkeypatch):
    synced, answers = [], iter([OSError(errno.EIO, "input/output error"), None])

    def fsync(fd):
        synced.append(fd)
        if (error := next(answers)) is not None:
            raise error

    monkeypatch.setattr(os, "fsync", fsync)
    spool = Spool(tmp_path, "boot", NoJournal())
    spool.append_all(make_records(1))
    with pytest.raises(OSError, match="input/output"):
        spool.sync()
    spool.sync()
    assert len(synced) == 2


def test_a_torn_last_line_is_not_a_record(tmp_path):
    spool = Spool(tmp_path, "boot", NoJournal())
    [record] = make_records(1)
    spool.append_all([record])
    [segment] = list_segments(tmp_path)
    torn = segment.read_bytes() + msgspec.json.encode(record)[:50]
    records, taken_bytes = decode_lines(torn, 10)
    assert records == [record]
    assert taken_bytes == len(segment.read_bytes())

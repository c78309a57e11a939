"""The reader's side of the usage spool: every record at least once, and no segment deleted before its time."""

import pytest

from tests.support.usage_records import write_segment
from workers.agent.reporting.usage_shipper import MAX_RECORDS, UsageSpool
from workers.contracts.spool import list_segments

pytestmark = pytest.mark.unit


def numbers(batch):
    return [record.sequence for record in batch.records]


def drain(spool):
    """All that is left, batch by batch."""
    taken = []
    while (batch := spool.next_batch()).records:
        taken += numbers(batch)
        spool.acknowledge(batch)
    return taken


def test_what_is_not_acknowledged_comes_again(tmp_path):
    write_segment(tmp_path, "boot-1", 0, 3)
    spool = UsageSpool(tmp_path)
    assert numbers(spool.next_batch()) == numbers(spool.next_batch()) == [0, 1, 2]


def test_what_is_acknowledged_does_not_come_again_also_to_the_next_agent(tmp_path):
    segment = write_segment(tmp_path, "boot-1", 0, 2)
    drain(UsageSpool(tmp_path))
    segment.write_bytes(segment.read_bytes() + segment.read_bytes().splitlines(keepends=True)[0])
    assert numbers(UsageSpool(tmp_path).next_batch()) == [0]


def test_a_batch_goes_over_segments_but_not_over_its_limit(tmp_path):
    write_segment(tmp_path, "boot-1", 0, MAX_RECORDS - 1)
    write_segment(tmp_path, "boot-1", MAX_RECORDS - 1, 5)
    spool = UsageSpool(tmp_path)
    batch = spool.next_batch()
    assert numbers(batch) == list(range(MAX_RECORDS))
    spool.acknowledge(batch)
    assert numbers(spool.next_batch()) == list(range(MAX_RECORDS, MAX_RECORDS + 4))


def test_a_record_whose_line_is_not_finished_waits_until_it_is(tmp_path):
    segment = write_segment(tmp_path, "boot-1", 0, 2)
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-10])
    spool = UsageSpool(tmp_path)
    assert drain(spool) == [0]
    segment.write_bytes(whole)
    assert drain(spool) == [1]


def test_a_segment_is_kept_while_its_gateway_may_still_write_to_it(tmp_path):
    write_segment(tmp_path, "boot-1", 0, 2)
    spool = UsageSpool(tmp_path)
    drain(spool)
    for boot in (None, "boot-1", "boot-0"):
        spool.delete_finished(boot)
        assert len(list_segments(tmp_path)) == 1


def test_a_finished_segment_goes_with_its_ack_file(tmp_path):
    write_segment(tmp_path, "boot-1", 0, 2, tail=b'{"torn')
    spool = UsageSpool(tmp_path)
    drain(spool)
    spool.delete_finished("boot-2")
    assert list(tmp_path.iterdir()) == []


def test_a_later_segment_finishes_the_one_before(tmp_path):
    write_segment(tmp_path, "boot-1", 0, 2)
    later = write_segment(tmp_path, "boot-1", 2, 2)
    spool = UsageSpool(tmp_path)
    drain(spool)
    spool.delete_finished("boot-1")
    assert list_segments(tmp_path) == [later]


def test_a_finished_segment_with_something_unacknowledged_is_kept(tmp_path):
    write_segment(tmp_path, "boot-1", 0, 2)
    spool = UsageSpool(tmp_path)
    spool.delete_finished("boot-2")
    assert drain(spool) == [0, 1]


def test_a_damaged_record_is_put_aside_and_stops_nothing(tmp_path):
    segment = write_segment(tmp_path, "boot-1", 0, 2)
    first, second = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(first + b'{"record_id": 5}\n' + second)
    spool = UsageSpool(tmp_path)
    assert drain(spool) == [0, 1]
    assert (tmp_path / "rejected.lines").read_bytes() == b'{"record_id": 5}\n'


def test_a_damaged_record_is_told_to_the_control_plane_once_it_is_acknowledged_no_more(tmp_path):
    segment = write_segment(tmp_path, "boot-1", 0, 1)
    segment.write_bytes(b'{"record_id": 5}\n\xff\n' + segment.read_bytes())
    spool = UsageSpool(tmp_path)
    batch = spool.next_batch()
    assert (numbers(batch), batch.damaged) == ([0], [b'{"record_id": 5}\n', b"\xff\n"])
    assert UsageSpool(tmp_path).next_batch().damaged == batch.damaged
    spool.acknowledge(batch)
    assert spool.next_batch().damaged == []


def test_a_damaged_ack_file_sends_again_rather_than_losing(tmp_path):
    segment = write_segment(tmp_path, "boot-1", 0, 2)
    segment.with_name(segment.name + ".ack").write_text("what?")
    assert numbers(UsageSpool(tmp_path).next_batch()) == [0, 1]

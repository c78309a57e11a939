"""A journal is a file, and dying is what happens between two of the statements that write it."""

import fcntl
import os

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.workers.gateway.records.test_metering import Clock, MemorySpool, meter_with
from workers.contracts import journal as format_module
from workers.contracts.journal import HEAD_BYTES, JOURNAL_SUFFIX, SLOT_BYTES, JournalError, read_journal
from workers.contracts.recording import unheard, unheard_id
from workers.contracts.salvage import salvage_all
from workers.contracts.settlement import Origin, Settlement, Used
from workers.contracts.snapshot import Price
from workers.contracts.spool import decode_lines, list_segments
from workers.gateway.records import journal as journal_module
from workers.gateway.records.journal import Journal
from workers.gateway.records.spool import Spool

pytestmark = pytest.mark.unit

ORIGIN = Origin(gateway_id="g1", boot_id="b1", node_id="n1")
PRICE = Price(input_pico_usd=3, cached_input_pico_usd=1, output_pico_usd=10)


class World:
    """A gateway's journal, spool and meter on a disk that survives it."""

    def __init__(self, directory):
        self.directory = directory
        self.clock = Clock()
        self.journal = Journal(directory, ORIGIN, self.clock)
        self.spool = Spool(directory, ORIGIN.boot_id, self.journal)
        self.memory = MemorySpool()
        self.meter = meter_with(self.memory, self.clock)

    def request(self, number=1, **changes):
        fields = {
            "request_id": f"r{number}",
            "arrived_at": self.clock.now,
            "tenant_id": "t1",
            "key_id": "k1",
            "user_id": "u1",
            "service_class": "gold",
            "path": "/v1/chat/completions",
            "price": PRICE,
            "is_stream": True,
            "dispatched_at": self.clock.now,
            "on_engine_since": self.clock.now,
            "attempts": 1,
        }
        settlement = Settlement(**(fields | changes))
        self.meter.identify(settlement)
        return settlement

    def settled(self, settlement, output_tokens=4):
        used = Used(source="engine", input_tokens=9, output_tokens=output_tokens)
        self.meter.settle(settlement, used, "completed", 200)
        return self.memory.records[-1]

    def die(self):
        """As the kernel does it: the lock goes, and what is in memory that was mapped stays."""
        self.journal.beat()
        fcntl.flock(self.journal._fd, fcntl.LOCK_UN)

    def salvage(self):
        salvage_all(self.directory)
        return self.records()

    def records(self):
        return [
            record
            for segment in list_segments(self.directory)
            for record in decode_lines(segment.read_bytes(), 100_000)[0]
        ]


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_request_under_way_when_the_gateway_dies_is_recorded_with_the_tokens_that_had_passed(world):
    slot = world.journal.open(world.request())
    slot.first_token_after(0.5)
    for output_tokens in range(1, 8):
        slot.count(9, output_tokens)
    slot.detail(4, 2)
    world.clock.now += 3
    world.die()
    [record] = world.salvage()
    assert (record.outcome, record.error_code, record.status) == ("failed", "gateway_died", 200)
    assert (record.usage_source, record.input_tokens, record.output_tokens) == ("engine", 9, 7)
    assert (record.cached_input_tokens, record.reasoning_tokens) == (4, 2)
    assert record.cost_pico_usd == 5 * 3 + 4 * 1 + 7 * 10
    assert (record.ttft_ms, record.total_ms, record.engine_ms) == (500.0, 3000.0, 3000.0)
    assert (record.sequence, record.boot_id, record.gateway_id, record.node_id) == (1, "b1", "g1", "n1")
    assert list(world.directory.glob(f"*{JOURNAL_SUFFIX}")) == []


def test_a_second_engines_count_of_the_same_prompt_counts_after_the_first_ones_was_thrown_away(world):
    slot = world.journal.open(world.request())
    slot.count(9, 5)
    slot.guess(0, 0)
    slot.count(9, 2)
    world.die()
    [record] = world.salvage()
    assert (record.usage_source, record.input_tokens, record.output_tokens) == ("engine", 9, 2)


def test_a_slot_that_is_used_again_counts_as_if_it_were_new(world):
    first = world.request(1)
    world.journal.open(first).count(9, 5)
    world.journal.release([world.settled(first)])
    world.journal.open(world.request(2)).count(9, 2)
    world.die()
    assert [(record.usage_source, record.output_tokens) for record in world.salvage()] == [("engine", 2)]


def test_the_record_is_known_by_the_same_id_and_time_whoever_writes_it(world):
    settlement = world.request()
    world.journal.open(settlement)
    world.die()
    [salvaged] = world.salvage()
    settled = world.settled(settlement)
    assert (salvaged.record_id, salvaged.arrived_at) == (settled.record_id, settled.arrived_at)


def test_what_another_gateway_asked_for_and_has_heard_nothing_of_is_waste_under_an_id_of_its_own(world):
    settlement = world.request(awaits_delivery=True)
    world.journal.open(settlement).count(9, 5)
    world.die()
    [record] = world.salvage()
    assert (record.output_tokens, record.cost_pico_usd, record.wasted_tokens) == (0, 0, 5)
    assert record.error_code == "gateway_died"
    assert record.record_id == unheard_id(settlement.record_id, settlement.arrived_unix_s) != settlement.record_id


def test_what_another_gateway_has_heard_of_is_salvaged_as_it_was_asked_for(world):
    settlement = world.request(awaits_delivery=True)
    slot = world.journal.open(settlement)
    slot.first_token_after(0.5)
    slot.count(9, 5)
    world.die()
    [record] = world.salvage()
    assert (record.record_id, record.output_tokens) == (settlement.record_id, 5)


def test_what_was_written_as_unheard_just_before_the_end_is_not_salvaged_as_heard(world):
    settlement = world.request()
    world.journal.open(settlement)
    record = world.settled(settlement)
    world.journal.keep(record, msgspec.json.encode(record))
    world.spool.append_all([unheard(record)])
    world.die()
    assert [one.record_id for one in world.salvage()] == [unheard(record).record_id]


def test_a_request_that_was_waiting_has_used_nothing(world):
    world.journal.open(world.request(dispatched_at=None, on_engine_since=None, attempts=0))
    world.die()
    [record] = world.salvage()
    assert (record.usage_source, record.output_tokens, record.queue_ms, record.status) == ("none", 0, None, 502)


def test_what_generates_nothing_costs_nothing(world):
    world.journal.open(world.request(is_metered=False)).count(5, 5)
    world.die()
    assert world.salvage()[0].usage_source == "none"


def test_an_engine_that_does_not_count_is_estimated_by_its_events(world):
    world.journal.open(world.request(expected_input_tokens=10)).guess(0, 6)
    world.die()
    [record] = world.salvage()
    assert (record.usage_source, record.input_tokens, record.output_tokens) == ("estimated", 10, 6)


def test_an_answer_in_one_piece_is_estimated_by_the_engines_pace_up_to_its_limit(world):
    for limit in (None, 50):
        world.journal.open(world.request(is_stream=False, pace_tokens_per_s=20.0, output_limit=limit))
    world.clock.now += 4
    world.die()
    assert sorted(record.output_tokens for record in world.salvage()) == [50, 80]


def test_the_numbers_go_on_where_the_dead_gateways_own_ended(world):
    for number in range(3):
        settlement = world.request(number)
        world.journal.open(settlement)
        world.spool.append_all([world.settled(settlement)])
    for number in (7, 8):
        world.journal.open(world.request(number))
    world.die()
    records = world.salvage()
    assert [record.sequence for record in records] == [1, 2, 3, 4, 5]
    assert [record.request_id for record in records] == ["r0", "r1", "r2", "r7", "r8"]


def test_a_gateway_that_dies_between_the_record_and_the_release_of_its_slot_is_counted_once(world, monkeypatch):
    settlement = world.request()
    world.journal.open(settlement)
    monkeypatch.setattr(world.journal, "release", lambda _records: None)
    world.spool.append_all([world.settled(settlement, output_tokens=11)])
    world.die()
    [record] = world.salvage()
    assert (record.outcome, record.output_tokens) == ("completed", 11)


def test_a_gateway_that_dies_in_the_middle_of_a_line_loses_no_record(world, monkeypatch):
    settlement = world.request()
    world.journal.open(settlement).count(9, 5)
    real_write = os.write
    monkeypatch.setattr(os, "write", lambda fd, lines: real_write(fd, lines[:40]) and len(lines))
    monkeypatch.setattr(world.journal, "release", lambda _records: None)
    world.spool.append_all([world.settled(settlement)])
    monkeypatch.setattr(os, "write", real_write)
    world.die()
    [record] = world.salvage()
    assert (record.outcome, record.output_tokens, record.sequence) == ("failed", 5, 1)


def test_a_salvage_that_is_killed_itself_is_done_again_and_counts_once(world, monkeypatch):
    world.journal.open(world.request())
    world.die()
    path = world.directory / f"b1{JOURNAL_SUFFIX}"
    content = path.read_bytes()
    world.salvage()
    path.write_bytes(content)  # as if it had died before it removed the journal
    assert len(world.salvage()) == 1
    assert not path.exists()


def test_a_journal_whose_gateway_lives_is_left_alone(world):
    world.journal.open(world.request())
    assert world.salvage() == []


def test_a_clean_end_leaves_no_journal(world):
    settlement = world.request()
    world.journal.open(settlement)
    world.spool.append_all([world.settled(settlement)])
    world.journal.close()
    assert world.salvage() == world.memory.records
    assert list(world.directory.glob(f"*{JOURNAL_SUFFIX}")) == []


def test_records_that_a_full_disk_refused_survive_the_gateway_to_the_token(world, monkeypatch):
    settlements = [world.request(number) for number in range(3)]
    for settlement in settlements:
        world.journal.open(settlement).count(9, 1)
    real_write = os.write

    def full(_fd, _lines):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    for settlement in settlements[:2]:
        world.spool.append_all([world.settled(settlement, output_tokens=77)])
    assert not world.spool.is_accepting
    monkeypatch.setattr(os, "write", real_write)
    world.die()
    records = world.salvage()
    assert [(record.outcome, record.output_tokens) for record in records] == [
        ("completed", 77),
        ("completed", 77),
        ("failed", 1),
    ]
    assert [record.sequence for record in records] == [1, 2, 3]


def test_a_request_that_is_sent_again_is_one_request(world):
    settlement = world.request(endpoint_id="first")
    world.journal.open(settlement).count(9, 3)
    settlement.endpoint_id, settlement.attempts = "second", 2
    world.journal.open(settlement)
    world.die()
    [record] = world.salvage()
    assert (record.endpoint_id, record.attempts, record.output_tokens) == ("second", 2, 3)


def test_a_gateway_that_dies_between_two_notes_of_one_request_is_counted_once(world, monkeypatch):
    settlement = world.request()
    world.journal.open(settlement)
    monkeypatch.setattr(world.journal, "_give_back", lambda _slot: None)
    settlement.attempts = 2
    world.journal.open(settlement)
    world.die()
    [record] = world.salvage()
    assert record.attempts == 2


def test_a_long_entry_takes_several_slots_and_gives_all_of_them_back(world):
    free = len(world.journal._free)
    settlement = world.request(tags={f"name-{number}": "ü" * 500 for number in range(16)})
    world.journal.open(settlement)
    assert len(world.journal._free) < free - 10
    world.die()
    assert read_journal((world.directory / "b1.journal").read_bytes()).interrupted[0].settlement.tags == settlement.tags
    world.journal.release([world.settled(settlement)])
    assert len(world.journal._free) == free


def test_it_grows_when_it_is_full_and_says_when_it_cannot(world, monkeypatch):
    monkeypatch.setattr(journal_module, "MAX_EXTENTS", 2)
    opened = 0
    while world.journal.has_room():
        world.journal.open(world.request(opened))
        opened += 1
    assert opened > journal_module.SLOTS_PER_EXTENT
    world.die()
    assert len(world.salvage()) == opened


def test_a_disk_without_room_is_noticed_before_anything_is_written_there(world, monkeypatch):
    def full(_fd, _start, _length):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    while world.journal.has_room():
        world.journal.open(world.request())
    assert len(world.journal._free) < journal_module.ROOM_SLOTS


def test_an_engine_may_count_nonsense(world):
    world.journal.open(world.request()).count(-5, 1 << 70)
    world.die()
    [record] = world.salvage()
    assert (record.input_tokens, record.output_tokens) == (0, (1 << 31) - 1)


def test_a_file_that_is_no_journal_is_put_aside(tmp_path):
    (tmp_path / "x.journal").write_bytes(b"what is this")
    assert salvage_all(tmp_path) == 0
    assert (tmp_path / "x.damaged").exists()
    with pytest.raises(JournalError):
        read_journal(b"")


@settings(max_examples=60, deadline=None)
@given(st.integers(0, SLOT_BYTES * 3), st.binary(min_size=1, max_size=64))
def test_garbage_in_the_slots_hides_no_other_request(tmp_path_factory, at, garbage):
    world = World(tmp_path_factory.mktemp("journal"))
    for number in range(8):
        world.journal.open(world.request(number))
    content = bytearray((world.directory / f"b1{JOURNAL_SUFFIX}").read_bytes())
    start = HEAD_BYTES + at
    content[start : start + len(garbage)] = garbage
    found = read_journal(bytes(content))
    touched = {(at + offset) // SLOT_BYTES for offset in range(len(garbage))}
    assert len(found.interrupted) + len(found.settled) >= 8 - len(touched)
    assert found.origin == ORIGIN


def test_the_format_is_what_its_description_says(world):
    slot = world.journal.open(world.request())
    slot.count(3, 2)
    content = (world.directory / f"b1{JOURNAL_SUFFIX}").read_bytes()
    assert content.startswith(format_module.MAGIC)
    entry = content[HEAD_BYTES + format_module.SLOT_HEAD_BYTES :]
    length = int.from_bytes(content[HEAD_BYTES + 1 : HEAD_BYTES + 4], "little")
    assert content[HEAD_BYTES] == format_module.OPEN
    assert msgspec.msgpack.decode(entry[:length], type=Settlement).request_id == "r1"


def test_what_a_gateway_before_wrote_as_json_is_read_too(world):
    settlement = world.request()
    world.journal.open(settlement)
    written = msgspec.msgpack.encode(settlement)
    content = bytearray((world.directory / f"b1{JOURNAL_SUFFIX}").read_bytes())
    assert bytes(content).count(written) == 1
    older = msgspec.json.encode(settlement)
    content[HEAD_BYTES + 1 : HEAD_BYTES + 4] = len(older).to_bytes(3, "little")
    start = HEAD_BYTES + format_module.SLOT_HEAD_BYTES
    content[start : start + len(older)] = older
    assert [found.settlement for found in read_journal(bytes(content)).interrupted] == [settlement]

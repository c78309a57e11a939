"""The requests under way, in a file that outlives this process. Format and why: workers/contracts/journal.py."""

import fcntl
import mmap
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from workers.contracts.journal import (
    ALIVE_AT_WORD,
    FOLLOWING,
    HEAD_BYTES,
    JOURNAL_SUFFIX,
    MAGIC,
    OPEN,
    ORIGIN_AT,
    ORIGIN_LENGTH_WORD,
    PIECE_BYTES,
    SETTLED,
    SLOT_BYTES,
    SLOT_HEAD_BYTES,
)
from workers.contracts.settlement import Origin, Settlement
from workers.contracts.usage import UsageRecord

SLOTS_PER_EXTENT = 256
MAX_EXTENTS = 256
# What the largest settlement takes: sixteen tags of the longest name and value, each letter escaped.
ROOM_SLOTS = 96
_MAX_TOKENS = 0x7FFF_FFFF
_EXTENT_BYTES = SLOTS_PER_EXTENT * SLOT_BYTES
_WORDS_PER_SLOT = SLOT_BYTES // 8
_COUNTED_HALF = 0x8000_0000  # the upper half of COUNTED


Notes = tuple[int, int, int]
_NO_NOTES: Notes = (0, 0, 0)


class Slot:
    """A place in the journal. `following` holds the rest of an entry that is longer than a piece."""

    __slots__ = ("_at", "_bytes", "_counted_input", "_halves", "_words", "following", "number")

    def __init__(self, number: int, extent: memoryview, words: memoryview, halves: memoryview) -> None:
        in_extent = number % SLOTS_PER_EXTENT
        self.number = number
        self._at = in_extent * _WORDS_PER_SLOT
        self._bytes = extent[in_extent * SLOT_BYTES + SLOT_HEAD_BYTES : (in_extent + 1) * SLOT_BYTES]
        self._words = words
        self._halves = halves
        self._counted_input = -1  # as it stands there
        self.following: list[Slot] = []

    def count(self, input_tokens: int, output_tokens: int) -> None:
        """What the engine says by now."""
        if not (0 <= input_tokens <= _MAX_TOKENS and 0 <= output_tokens <= _MAX_TOKENS):
            input_tokens, output_tokens = _within(input_tokens), _within(output_tokens)
        # With each event of a stream, and numbers of 64 bits are slow: so by halves, of which the input seldom changes.
        low = 2 * (self._at + 1)
        if input_tokens != self._counted_input:
            self._counted_input = input_tokens
            self._halves[low + 1] = _COUNTED_HALF | input_tokens
        self._halves[low] = output_tokens

    def guess(self, input_tokens: int, output_tokens: int) -> None:
        """What may be supposed of an engine that does not count along; 0 input tokens are unknown."""
        self._counted_input = -1
        self._words[self._at + 1] = _within(input_tokens) << 32 | _within(output_tokens)

    def detail(self, cached_input_tokens: int, reasoning_tokens: int) -> None:
        self._words[self._at + 2] = _within(cached_input_tokens) << 32 | _within(reasoning_tokens)

    def first_token_after(self, seconds: float) -> None:
        self._words[self._at + 3] = max(int(seconds * 1e6), 1)

    def notes(self) -> Notes:
        at = self._at
        return self._words[at + 1], self._words[at + 2], self._words[at + 3]

    def fill(self, state: int, piece: bytes, next_slot: int, notes: Notes) -> None:
        words, at = self._words, self._at
        self._counted_input = -1
        self._bytes[: len(piece)] = piece
        words[at + 1], words[at + 2], words[at + 3] = notes
        words[at] = _word_0(state, len(piece), next_slot)

    def free(self) -> None:
        self._words[self._at] = 0


class Journal:
    """One per process. It grows in extents up to a bound, and only where the disk has room; without any it has none.

    `error` says why there is no room.
    """

    def __init__(self, directory: Path, origin: Origin, monotonic: Callable[[], float]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._path = directory / f"{origin.boot_id}{JOURNAL_SUFFIX}"
        self._origin = msgspec.json.encode(origin)
        self._monotonic = monotonic
        self._encode_settlement = msgspec.msgpack.Encoder().encode
        self._open_slots: dict[str, Slot] = {}
        self._free: list[Slot] = []
        self._extents = 0
        self._fd = -1
        self._words: memoryview | None = None
        self.error = ""
        self.has_room()

    def has_room(self) -> bool:
        """Whether the next request can be noted, whatever it brings."""
        if len(self._free) >= ROOM_SLOTS:
            return True
        try:
            if self._words is None:
                self._begin()
            else:
                self._grow()
        except OSError as error:
            self.error = f"usage journal: {error}"
            return False
        self.error = ""
        return True

    def _begin(self) -> None:
        """Nobody may find it unlocked and take us for dead: it gets its name when the lock is held."""
        hidden = self._path.with_suffix(".new")
        self._fd = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o640)
        fcntl.flock(self._fd, fcntl.LOCK_EX)
        try:
            words = self._write_head()
            self._grow()
        except OSError:
            os.close(self._fd)
            hidden.unlink()
            raise
        hidden.rename(self._path)
        self._words = words

    def open(self, settlement: Settlement) -> Slot:
        """Notes it; what is noted already the new slot takes over. Ask `has_room` before the first."""
        record_id = settlement.record_id
        old = self._open_slots.get(record_id)
        notes = old.notes() if old is not None else _NO_NOTES
        slot = self._open_slots[record_id] = self._write(OPEN, self._encode_settlement(settlement), notes)
        if old is not None:
            self._give_back(old)
        return slot

    def keep(self, record: UsageRecord, line: bytes) -> None:
        """A record that the spool cannot take: it stands here for its note until the spool can, if there is room."""
        old = self._open_slots.get(record.record_id)
        if len(self._free) < ROOM_SLOTS:
            return
        self._open_slots[record.record_id] = self._write(SETTLED, line, _NO_NOTES)
        if old is not None:
            self._give_back(old)

    def forget(self, record_id: str) -> None:
        """There will be no record of it."""
        slot = self._open_slots.pop(record_id, None)
        if slot is not None:
            self._give_back(slot)

    def release(self, records: Iterable[UsageRecord]) -> None:
        """The spool has them."""
        take = self._open_slots.pop
        for record in records:
            slot = take(record.record_id, None)
            if slot is not None:
                slot.free()
                self._free.append(slot)
                if slot.following:
                    self._give_back_following(slot)

    def beat(self) -> None:
        """Says that we are alive: if we die, what was under way ended about now."""
        if self._words is not None:
            self._words[ALIVE_AT_WORD] = int(self._monotonic() * 1e6)

    def close(self) -> None:
        """Leaves the file behind, for a salvager, only where something is in it."""
        if self._words is None:
            return
        if not self._open_slots:
            self._path.unlink(missing_ok=True)
        fcntl.flock(self._fd, fcntl.LOCK_UN)  # the maps hold copies of the descriptor, and with them the lock
        os.close(self._fd)

    def _write(self, state: int, entry: bytes, notes: Notes) -> Slot:
        slot = self._take()
        if len(entry) <= PIECE_BYTES:
            slot.fill(state, entry, 0, notes)
            return slot
        next_slot = 0
        for at in range((len(entry) - 1) // PIECE_BYTES * PIECE_BYTES, 0, -PIECE_BYTES):
            following = self._take()
            following.fill(FOLLOWING, entry[at : at + PIECE_BYTES], next_slot, _NO_NOTES)
            next_slot = following.number + 1
            slot.following.append(following)
        slot.fill(state, entry[:PIECE_BYTES], next_slot, notes)
        return slot

    def _take(self) -> Slot:
        if not self._free:
            self._grow()
        return self._free.pop()

    def _give_back(self, slot: Slot) -> None:
        slot.free()
        self._free.append(slot)
        self._give_back_following(slot)

    def _give_back_following(self, slot: Slot) -> None:
        for following in slot.following:
            following.free()
        self._free += slot.following
        slot.following = []

    def _write_head(self) -> memoryview:
        os.posix_fallocate(self._fd, 0, HEAD_BYTES)
        head = memoryview(mmap.mmap(self._fd, HEAD_BYTES))
        head[ORIGIN_AT : ORIGIN_AT + len(self._origin)] = self._origin
        words = head.cast("Q")
        words[ORIGIN_LENGTH_WORD] = len(self._origin)
        words[ALIVE_AT_WORD] = int(self._monotonic() * 1e6)
        head[: len(MAGIC)] = MAGIC
        return words

    def _grow(self) -> None:
        """Takes the room before it is used: a store into a map that the disk has no room for would kill us."""
        if self._extents >= MAX_EXTENTS:
            raise OSError("the journal is as large as it may be")
        start = HEAD_BYTES + self._extents * _EXTENT_BYTES
        os.posix_fallocate(self._fd, start, _EXTENT_BYTES)
        extent = memoryview(mmap.mmap(self._fd, _EXTENT_BYTES, offset=start))
        words, halves = extent.cast("Q"), extent.cast("I")
        first = self._extents * SLOTS_PER_EXTENT
        self._free += [Slot(first + index, extent, words, halves) for index in reversed(range(SLOTS_PER_EXTENT))]
        self._extents += 1


def _word_0(state: int, piece_bytes: int, next_slot: int) -> int:
    """`next_slot` is the number plus one, 0 for none."""
    return state | piece_bytes << 8 | next_slot << 32


def _within(tokens: int) -> int:
    """An engine may say anything."""
    return min(max(tokens, 0), _MAX_TOKENS)

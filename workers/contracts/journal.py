"""Format of a gateway's journal: the requests that it has under way, in a file that outlives it.

`<spool>/<boot_id>.journal` is written through a memory map, so that each note is a copy in memory and the kernel keeps
it whatever becomes of the process. Its writer holds an exclusive flock on it for as long as it lives; a journal whose
lock is free belongs to a process that is dead, and what its slots hold is settled by who finds it
(workers/contracts/salvage.py).

    head, 4,096 bytes    magic · u64 when the writer was last alive (monotonic, µs) · u64 length of the Origin · Origin
    slots, 1,024 each    four u64, then a piece of the entry

    word 0    state, bits 0-7 · bytes of the piece, 8-31 · number of the slot with the next piece plus one, 32-63
    word 1    output tokens so far, 0-31 · input tokens, 32-62 · 1 if the engine has counted them, 63
    word 2    reasoning tokens, 0-31 · cached input tokens, 32-63
    word 3    first token, in µs after the arrival; 0: none yet

A slot is in use once its word 0 is written, which is after all else and in one store: a writer that is killed at any
point leaves a slot that is whole or free. An entry is a Settlement (OPEN) as MessagePack, which takes a third
of JSON's time (gateways before wrote that: it begins with a brace, as no map of MessagePack does), or a finished
UsageRecord that the spool could not take (SETTLED), as JSON.
"""

import struct

import msgspec
from msgspec import Struct

from workers.contracts.settlement import NOTHING, Origin, Settlement, Used
from workers.contracts.usage import UsageRecord

JOURNAL_SUFFIX = ".journal"
MAGIC = b"TYJRNL1\n"
HEAD_BYTES = 4096
ALIVE_AT_WORD = 1
ORIGIN_LENGTH_WORD = 2
ORIGIN_AT = 24
SLOT_BYTES = 1024
SLOT_HEAD_BYTES = 32
PIECE_BYTES = SLOT_BYTES - SLOT_HEAD_BYTES
FREE, OPEN, SETTLED, FOLLOWING = range(4)
COUNTED = 1 << 63

_WORDS = struct.Struct("<QQQQ")
_LOW = (1 << 32) - 1
_decode_settlement = msgspec.msgpack.Decoder(Settlement).decode
_decode_older_settlement = msgspec.json.Decoder(Settlement).decode
_decode_record = msgspec.json.Decoder(UsageRecord).decode
_decode_origin = msgspec.json.Decoder(Origin).decode


class JournalError(ValueError):
    """The file is no journal."""


class Interrupted(Struct, frozen=True):
    """A request that its gateway did not end, with the tokens that had passed."""

    settlement: Settlement
    used: Used


class Journal(Struct, frozen=True):
    """What a journal holds. `unreadable` counts slots in use that hold nonsense, as only a power cut leaves them."""

    origin: Origin
    alive_at: float
    interrupted: list[Interrupted]
    settled: list[UsageRecord]
    unreadable: int


def read_journal(content: bytes) -> Journal:
    if len(content) < HEAD_BYTES or not content.startswith(MAGIC):
        raise JournalError("no journal")
    _, alive_us, origin_bytes, _ = _WORDS.unpack_from(content, 0)
    try:
        origin = _decode_origin(content[ORIGIN_AT : ORIGIN_AT + origin_bytes])
    except msgspec.DecodeError as error:
        raise JournalError(str(error)) from error
    alive_at = alive_us / 1e6
    interrupted: dict[str, Interrupted] = {}
    settled: list[UsageRecord] = []
    unreadable = 0
    for slot in range((len(content) - HEAD_BYTES) // SLOT_BYTES):
        state = content[HEAD_BYTES + slot * SLOT_BYTES]
        try:
            if state == OPEN:
                found = _interrupted(content, slot, alive_at)
                interrupted[found.settlement.record_id] = _later(found, interrupted)
            elif state == SETTLED:
                settled.append(_decode_record(_entry(content, slot)))
        except msgspec.DecodeError:
            unreadable += 1
    return Journal(origin, alive_at, list(interrupted.values()), settled, unreadable)


def _later(found: Interrupted, known: dict[str, Interrupted]) -> Interrupted:
    """Of two notes of one request, which a writer leaves that is killed between the new one and the end of the old."""
    other = known.get(found.settlement.record_id)
    return found if other is None or found.settlement.attempts >= other.settlement.attempts else other


def _entry(content: bytes, slot: int) -> bytes:
    pieces = []
    for _ in range(len(content) // SLOT_BYTES):
        at = HEAD_BYTES + slot * SLOT_BYTES
        word = int.from_bytes(content[at : at + 8], "little")
        pieces.append(content[at + SLOT_HEAD_BYTES : at + SLOT_HEAD_BYTES + (word >> 8 & 0xFFFFFF)])
        slot = (word >> 32) - 1
        if slot < 0:
            break
    return b"".join(pieces)


def _interrupted(content: bytes, slot: int, alive_at: float) -> Interrupted:
    entry = _entry(content, slot)
    settlement = _decode_older_settlement(entry) if entry.startswith(b"{") else _decode_settlement(entry)
    _, tokens, details, first_token_us = _WORDS.unpack_from(content, HEAD_BYTES + slot * SLOT_BYTES)
    if first_token_us:
        settlement.first_token_at = settlement.arrived_at + first_token_us / 1e6
    return Interrupted(settlement, _used(settlement, tokens, details, alive_at))


def _used(settlement: Settlement, tokens: int, details: int, alive_at: float) -> Used:
    if settlement.dispatched_at is None or not settlement.is_metered:
        return NOTHING
    output_tokens, input_tokens = tokens & _LOW, (tokens & ~COUNTED) >> 32
    if tokens & COUNTED:
        return Used(
            source="engine",
            input_tokens=input_tokens,
            cached_input_tokens=min(details >> 32, input_tokens),
            output_tokens=output_tokens,
            reasoning_tokens=details & _LOW,
        )
    if not settlement.is_stream:
        output_tokens = int(settlement.pace_tokens_per_s * max(alive_at - settlement.dispatched_at, 0.0))
    return settlement.estimate(output_tokens, input_tokens or None)

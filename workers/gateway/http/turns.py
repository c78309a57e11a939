"""One turn of the event loop: first what is read is dealt with, then all that is to be written is written.

The records of what ended in the turn are one write to the spool, before any answer's last byte. The writes to sockets
follow each other closely, so that who reads at the other end is woken once and not for each. Where writes are far apart
there is nothing to gather, and each goes out at once.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from workers.contracts.usage import UsageRecord

logger = logging.getLogger(__name__)

# Bounds how long the first bytes wait for the last.
WRITES_MAX = 128
# A write so long after the last one has no others to wait for. What is read together is written some 20 µs apart; the
# two writes of a lone request lie further from each other, as an engine or a client answers in between.
APART_S = 40e-6


class Records(Protocol):
    def append_all(self, records: Sequence[UsageRecord]) -> None: ...


class Sink(Protocol):
    """What is used of a transport."""

    def write(self, data: bytes) -> None: ...
    def close(self) -> None: ...
    def is_closing(self) -> bool: ...


class Turn:
    """`call_soon` runs a function when what has been read in this turn is dealt with."""

    def __init__(
        self,
        spool: Records,
        call_soon: Callable[[Callable[[], None]], object],
        monotonic: Callable[[], float],
    ) -> None:
        self._spool = spool
        self._call_soon = call_soon
        self._monotonic = monotonic
        self._wrote_at = 0.0
        self._records: list[UsageRecord] = []
        self._sinks: list[Sink] = []
        self._pieces: list[bytes] = []
        self._is_end_due = False
        self._at_end = self.end  # made once and not for each turn

    def append(self, record: UsageRecord) -> None:
        self._records.append(record)
        self._see_to_end()

    def write(self, sink: Sink, data: bytes) -> None:
        before, self._wrote_at = self._wrote_at, self._monotonic()
        if not self._sinks and self._wrote_at - before > APART_S:
            self._flush_records()
            _write(sink, data)
            return
        self._sinks.append(sink)
        self._pieces.append(data)
        if not self._is_end_due or len(self._sinks) >= WRITES_MAX:
            self._see_to_end()

    def close(self, sink: Sink) -> None:
        """After what was written to it before."""
        self.write(sink, b"")

    def end(self) -> None:
        self._is_end_due = False
        self._flush()

    def _see_to_end(self) -> None:
        if not self._is_end_due:
            self._is_end_due = True
            self._call_soon(self._at_end)
        if len(self._sinks) >= WRITES_MAX:
            self._flush()

    def _flush(self) -> None:
        self._flush_records()
        sinks, self._sinks = self._sinks, []
        pieces, self._pieces = self._pieces, []
        for place, sink in enumerate(sinks):
            _write(sink, pieces[place])

    def _flush_records(self) -> None:
        if self._records:
            records, self._records = self._records, []
            self._spool.append_all(records)


def _write(sink: Sink, data: bytes) -> None:
    if sink.is_closing():
        return
    if data:
        sink.write(data)
    else:
        sink.close()

"""One turn of the event loop: the records of all requests that end in it, in one write, and then their answers."""

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from workers.contracts.usage import UsageRecord

logger = logging.getLogger(__name__)


class Records(Protocol):
    def append_all(self, records: Sequence[UsageRecord]) -> None: ...


class Turn:
    """Holds back the last bytes of answers until the turn's records are written.

    `call_soon` runs a function when what has been read in this turn is dealt with.
    """

    def __init__(self, spool: Records, call_soon: Callable[[Callable[[], None]], object]) -> None:
        self._spool = spool
        self._call_soon = call_soon
        self._records: list[UsageRecord] = []
        self._sends: list[Callable[[], None]] = []

    def append(self, record: UsageRecord) -> None:
        if not self._records and not self._sends:
            self._call_soon(self.end)
        self._records.append(record)

    def then(self, send: Callable[[], None]) -> None:
        """Calls `send` once all records appended so far are written; at once when there is none to wait for."""
        if self._records or self._sends:
            self._sends.append(send)
        else:
            send()

    def end(self) -> None:
        records, self._records = self._records, []
        sends, self._sends = self._sends, []
        if records:
            self._spool.append_all(records)
        for send in sends:
            try:
                send()
            except Exception:  # one answer that cannot be sent must not keep back the others
                logger.exception("an answer could not be sent")

"""What each request really took and gave, so that a test outside can count to the token."""

from collections import OrderedDict

from msgspec import Struct, structs


class LedgerEntry(Struct, frozen=True, kw_only=True):
    """`outcome` is running, stop, length (as finish reasons; the first choice's), abort, error or refused.

    `completion_tokens` were generated, all choices together, whether or not anybody read them.
    """

    request_id: str
    path: str
    arrived_at: float
    outcome: str = "running"
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    priority: int = 0
    ended_at: float | None = None


class Ledger:
    """The latest `limit` requests, oldest first. A request id used twice has two entries."""

    def __init__(self, limit: int = 20_000) -> None:
        self._limit = limit
        self._entries: OrderedDict[int, LedgerEntry] = OrderedDict()
        self._count = 0

    def open(self, entry: LedgerEntry) -> int:
        """The entry's number, to close it by."""
        self._count += 1
        self._entries[self._count] = entry
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)
        return self._count

    def close(self, number: int, *, outcome: str, cached_tokens: int, completion_tokens: int, ended_at: float) -> None:
        entry = self._entries.get(number)
        if entry is None or entry.ended_at is not None:
            return
        self._entries[number] = structs.replace(
            entry,
            outcome=outcome,
            cached_tokens=cached_tokens,
            completion_tokens=completion_tokens,
            ended_at=ended_at,
        )

    def entries(self, request_id: str | None = None) -> list[LedgerEntry]:
        return [entry for entry in self._entries.values() if request_id in (None, entry.request_id)]

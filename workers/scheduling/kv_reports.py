"""What an engine says of its KV cache, as far as it can be believed."""

from collections.abc import Iterable

from workers.scheduling.interface import EngineReport
from workers.scheduling.ticket import Ticket

REPORT_MAX_AGE_S = 2.0
IDLE_USAGE = 0.05
"""What an engine without any request may say is in use; one that says more counts what is only cached."""
NEVER = float("-inf")


class KVReports:
    """The last report, and what was sent since it was taken and has no first token yet.

    An engine whose use includes what it only keeps cached looks full for ever, though it would evict all that. It has
    given itself away once it had nothing to do; its word on that is not used any more.
    """

    __slots__ = ("_counts_cached", "_usage", "sent_since", "taken_at")

    def __init__(self) -> None:
        self.taken_at = NEVER
        self._usage: float | None = None
        self._counts_cached = False
        self.sent_since = 0.0

    def take(self, report: EngineReport, prefilling: Iterable[Ticket]) -> None:
        taken_at, usage, sent_since = report.taken_at, report.kv_usage, 0.0
        self.taken_at, self._usage = taken_at, usage
        if usage is not None and usage > IDLE_USAGE and report.running == 0 and report.waiting == 0:
            self._counts_cached = True
        for ticket in prefilling:
            if ticket.sent_at >= taken_at:
                sent_since += ticket.kv_tokens
        self.sent_since = sent_since

    def usage(self, now: float) -> float | None:
        """A share of the capacity; None where own counts are better."""
        return None if self._counts_cached or now - self.taken_at > REPORT_MAX_AGE_S else self._usage

    def age_s(self, now: float) -> float | None:
        return None if self.taken_at == NEVER else now - self.taken_at

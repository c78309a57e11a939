"""What an engine says of its KV cache, as far as it can be believed."""

from math import inf

from workers.scheduling.interface import EngineReport
from workers.scheduling.ticket import Ticket

REPORT_MAX_AGE_S = 2.0
MOST_IDLE_USAGE = 0.05
EXCESS = 2.0
BELIEVED_S = 5.0


class KVReports:
    """The last report, and what of that which runs was sent since it was taken.

    Some engines count what they only keep cached as used, though they would evict all that: they look full for ever.
    One that has said for BELIEVED_S that it uses EXCESS times as much as all that it runs may need has given itself
    away: its word on that is not used any more.
    """

    __slots__ = ("_counts_cached", "_most_running", "_odd_since", "_sent_at", "_usage", "sent_since", "taken_at")

    def __init__(self) -> None:
        self.taken_at = -inf
        self._usage: float | None = None
        self._sent_at = -inf
        self._most_running = 0
        self._odd_since = -inf
        self._counts_cached = False
        self.sent_since = 0.0

    def take(self, report: EngineReport, running: dict[int, Ticket], most_share: float) -> None:
        """`running` are ours, in the order in which they were sent; `most_share` of the cache the most they may use."""
        self.taken_at, self._usage = report.taken_at, report.kv_usage
        if not self._counts_cached:
            self._doubt(report, len(running), most_share)
        self._most_running = len(running)
        self.sent_since = 0.0 if self._sent_at < self.taken_at else _sent_since(running, self.taken_at)

    def sent(self, ticket: Ticket, running: int) -> None:
        self._sent_at = ticket.sent_at
        self.sent_since += ticket.kv_tokens
        self._most_running = max(running, self._most_running)

    def ended(self, ticket: Ticket) -> None:
        if ticket.sent_at >= self.taken_at:
            self.sent_since = max(0.0, self.sent_since - ticket.kv_tokens)

    def usage(self, now: float) -> float | None:
        """A share of the capacity; None where own counts are better."""
        return None if self._counts_cached or now - self.taken_at > REPORT_MAX_AGE_S else self._usage

    def age_s(self, now: float) -> float | None:
        return None if self.taken_at == -inf else now - self.taken_at

    def _doubt(self, report: EngineReport, running: int, most_share: float) -> None:
        """What others run there is theirs to use: an engine that runs more than we know of may say what it will."""
        told = None if report.running is None or report.waiting is None else report.running + report.waiting
        is_ours_alone = told is not None and told <= max(running, self._most_running)
        usage = report.kv_usage or 0.0
        if not is_ours_alone or usage <= MOST_IDLE_USAGE + EXCESS * most_share:
            self._odd_since = -inf
        elif self._odd_since == -inf:
            self._odd_since = report.taken_at
        else:
            self._counts_cached = report.taken_at - self._odd_since >= BELIEVED_S


def _sent_since(running: dict[int, Ticket], at: float) -> float:
    tokens = 0.0
    for ticket in reversed(running.values()):
        if ticket.sent_at < at:
            break
        tokens += ticket.kv_tokens
    return tokens

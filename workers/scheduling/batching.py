"""When a batch is sent to an engine that does not batch by itself."""

from collections.abc import Iterable
from math import inf

from workers.scheduling.endpoint_spec import Batching
from workers.scheduling.ticket import Ticket


class BatchWindow:
    """Of one pool. A batch is due when it is full by requests or tokens, or when its window closes.

    The window closes `window_s` after the first request came, or when the most urgent one inside must start.
    """

    def __init__(self, batching: Batching) -> None:
        self.batching = batching
        self.closes_at = inf
        self._requests = 0
        self._tokens = 0
        self._number = 0

    def joined(self, ticket: Ticket) -> None:
        self._requests += 1
        self._tokens += ticket.prompt_tokens
        self.closes_at = min(self.closes_at, ticket.request.arrived_at + self.batching.window_s, ticket.start_by)

    def rebuild(self, waiting: Iterable[Ticket]) -> None:
        """After a batch was sent; who has left meanwhile is no longer counted either."""
        self.closes_at = inf
        self._requests = self._tokens = 0
        for ticket in waiting:
            self.joined(ticket)

    def is_due(self, now: float) -> bool:
        batching = self.batching
        is_full = self._requests >= batching.max_requests or self._tokens >= batching.max_tokens
        return is_full or now >= self.closes_at

    def next_number(self) -> int:
        self._number += 1
        return self._number

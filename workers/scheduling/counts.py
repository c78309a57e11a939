"""How many requests wait, and whose."""

from workers.scheduling.greediest import Greediest
from workers.scheduling.interface import Request, SchedulerConfig
from workers.scheduling.ticket import Ticket


class Waiting:
    """Of one tenant. `untried` are those of each rank that were never sent, in the order in which they came."""

    __slots__ = ("requests", "tokens", "untried")

    def __init__(self) -> None:
        self.requests = 0
        self.tokens = 0.0
        self.untried: dict[int, dict[int, Ticket]] = {}

    def add(self, ticket: Ticket) -> None:
        self.requests += 1
        self.tokens += tokens_of(ticket.request)
        if not ticket.attempts:
            self.untried.setdefault(ticket.request.rank, {})[ticket.number] = ticket

    def remove(self, ticket: Ticket) -> None:
        self.requests -= 1
        self.tokens -= tokens_of(ticket.request)
        of_rank = self.untried.get(ticket.request.rank)
        if of_rank is not None and of_rank.pop(ticket.number, None) is not None and not of_rank:
            del self.untried[ticket.request.rank]

    def last(self) -> Ticket | None:
        """What came last of the lowest class."""
        return next(reversed(self.untried[max(self.untried)].values())) if self.untried else None


class QueueCounts:
    """Keys with a count of nought are dropped: what is idle takes no memory."""

    def __init__(self) -> None:
        self.total = 0
        self.tokens = 0.0
        self.by_tenant: dict[str, Waiting] = {}
        self.by_rank: dict[int, int] = {}
        self._greediest = Greediest()

    def add(self, ticket: Ticket) -> None:
        request = ticket.request
        self.total += 1
        self.tokens += tokens_of(request)
        waiting = self.by_tenant.get(request.tenant_id)
        if waiting is None:
            waiting = self.by_tenant[request.tenant_id] = Waiting()
        waiting.add(ticket)
        self._greediest.add(request.tenant_id)
        self.by_rank[request.rank] = self.by_rank.get(request.rank, 0) + 1

    def remove(self, ticket: Ticket) -> None:
        """It is as it was when it was added, but for being sent."""
        request = ticket.request
        self.total -= 1
        self.tokens = self.tokens - tokens_of(request) if self.total else 0.0
        waiting = self.by_tenant[request.tenant_id]
        waiting.remove(ticket)
        self._greediest.remove(request.tenant_id)
        if not waiting.requests:
            del self.by_tenant[request.tenant_id]
        if self.by_rank[request.rank] == 1:
            del self.by_rank[request.rank]
        else:
            self.by_rank[request.rank] -= 1

    def exceeds_of_tenant(self, request: Request) -> bool:
        """With this request, which is counted already."""
        waiting = self.by_tenant[request.tenant_id]
        most_tokens = request.max_queued_tokens_of_tenant
        return waiting.requests > request.max_queued_of_tenant or (
            most_tokens is not None and waiting.tokens > most_tokens
        )

    def exceeds_total(self, config: SchedulerConfig) -> bool:
        return self.total > config.max_queued_requests or self.tokens > config.max_queued_tokens

    def least_deserving(self, newcomer: Ticket) -> Ticket:
        """Of the tenant that has most in the queues, what came last of its lowest class; nothing that was sent before.

        The newcomer itself, where its tenant has as much.
        """
        if self._greediest.most <= self._greediest.count_of(newcomer.request.tenant_id):
            return newcomer
        return self.by_tenant[self._greediest.first()].last() or newcomer


def tokens_of(request: Request) -> float:
    return request.prompt_tokens + request.predicted_output_tokens

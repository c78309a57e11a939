"""How many requests wait, and whose."""

from workers.scheduling.interface import Request, SchedulerConfig


class Waiting:
    """Of one tenant."""

    __slots__ = ("requests", "tokens")

    def __init__(self) -> None:
        self.requests = 0
        self.tokens = 0.0


class QueueCounts:
    """Keys with a count of nought are dropped: what is idle takes no memory."""

    def __init__(self) -> None:
        self.total = 0
        self.tokens = 0.0
        self.by_tenant: dict[str, Waiting] = {}
        self.by_rank: dict[int, int] = {}

    def add(self, request: Request) -> None:
        self.total += 1
        waiting = self.by_tenant.get(request.tenant_id)
        if waiting is None:
            waiting = self.by_tenant[request.tenant_id] = Waiting()
        waiting.requests += 1
        tokens = tokens_of(request)
        waiting.tokens += tokens
        self.tokens += tokens
        self.by_rank[request.rank] = self.by_rank.get(request.rank, 0) + 1

    def remove(self, request: Request) -> None:
        self.total -= 1
        tokens = tokens_of(request)
        self.tokens = self.tokens - tokens if self.total else 0.0
        waiting = self.by_tenant[request.tenant_id]
        waiting.requests -= 1
        waiting.tokens -= tokens
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

    def requests_of(self, tenant_id: str) -> int:
        waiting = self.by_tenant.get(tenant_id)
        return waiting.requests if waiting is not None else 0

    def greediest(self) -> str:
        """The tenant with the most requests waiting, then the most tokens; there must be one."""
        return max(
            self.by_tenant, key=lambda tenant_id: (self.by_tenant[tenant_id].requests, self.by_tenant[tenant_id].tokens)
        )


def tokens_of(request: Request) -> float:
    return request.prompt_tokens + request.predicted_output_tokens

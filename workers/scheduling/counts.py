"""How many requests wait, and whose."""

from workers.scheduling.interface import Request


class QueueCounts:
    """Keys with a count of nought are dropped: what is idle takes no memory."""

    def __init__(self) -> None:
        self.total = 0
        self.by_tenant: dict[str, int] = {}
        self.by_rank: dict[int, int] = {}

    def add(self, request: Request) -> None:
        self.total += 1
        self.by_tenant[request.tenant_id] = self.by_tenant.get(request.tenant_id, 0) + 1
        self.by_rank[request.rank] = self.by_rank.get(request.rank, 0) + 1

    def remove(self, request: Request) -> None:
        self.total -= 1
        if self.by_tenant[request.tenant_id] == 1:
            del self.by_tenant[request.tenant_id]
        else:
            self.by_tenant[request.tenant_id] -= 1
        if self.by_rank[request.rank] == 1:
            del self.by_rank[request.rank]
        else:
            self.by_rank[request.rank] -= 1

    def exceeds(self, request: Request, max_total: int) -> bool:
        """With this request, which is counted already."""
        return self.by_tenant.get(request.tenant_id, 0) > request.max_queued_of_tenant or self.total > max_total

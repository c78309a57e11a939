"""The order in which waiting requests of one version are served."""

from collections import deque

from workers.scheduling.interface import Request


class ClassQueue:
    """Requests of one service class: first in first out within a tenant, tenants in turn."""

    def __init__(self) -> None:
        self._by_tenant: dict[str, deque[Request]] = {}
        self._turns: deque[str] = deque()
        self.size = 0

    def append(self, request: Request) -> None:
        self._waiting_of(request.tenant_id).append(request)
        self.size += 1

    def append_first(self, request: Request) -> None:
        """Puts back a request that was dispatched and came back: it keeps its place."""
        self._waiting_of(request.tenant_id).appendleft(request)
        self.size += 1

    def first(self) -> Request:
        return self._by_tenant[self._turns[0]][0]

    def pop(self) -> Request:
        """Removes and returns `first()`."""
        tenant_id = self._turns.popleft()
        waiting = self._by_tenant[tenant_id]
        request = waiting.popleft()
        if waiting:
            self._turns.append(tenant_id)
        else:
            del self._by_tenant[tenant_id]
        self.size -= 1
        return request

    def remove(self, request: Request) -> None:
        waiting = self._by_tenant[request.tenant_id]
        waiting.remove(request)
        self.size -= 1
        if not waiting:
            del self._by_tenant[request.tenant_id]
            self._turns.remove(request.tenant_id)

    def arrived_before(self, time: float) -> list[Request]:
        return [request for waiting in self._by_tenant.values() for request in waiting if request.arrived_at < time]

    def _waiting_of(self, tenant_id: str) -> deque[Request]:
        waiting = self._by_tenant.get(tenant_id)
        if waiting is None:
            waiting = self._by_tenant[tenant_id] = deque()
            self._turns.append(tenant_id)
        return waiting


class VersionQueue:
    """Strict class order: a request is served only when no class of a lower rank waits."""

    def __init__(self) -> None:
        self._by_rank: dict[int, ClassQueue] = {}
        self.size = 0

    def append(self, request: Request) -> None:
        self._class_of(request.rank).append(request)
        self.size += 1

    def append_first(self, request: Request) -> None:
        self._class_of(request.rank).append_first(request)
        self.size += 1

    def first(self) -> Request:
        return self._first_class().first()

    def pop(self) -> Request:
        """Removes and returns `first()`."""
        self.size -= 1
        return self._first_class().pop()

    def remove(self, request: Request) -> None:
        self._by_rank[request.rank].remove(request)
        self.size -= 1

    def size_by_rank(self) -> dict[int, int]:
        return {rank: waiting.size for rank, waiting in self._by_rank.items() if waiting.size}

    def arrived_before(self, time: float) -> list[Request]:
        return [request for waiting in self._by_rank.values() for request in waiting.arrived_before(time)]

    def _first_class(self) -> ClassQueue:
        return self._by_rank[min(rank for rank, waiting in self._by_rank.items() if waiting.size)]

    def _class_of(self, rank: int) -> ClassQueue:
        return self._by_rank.setdefault(rank, ClassQueue())

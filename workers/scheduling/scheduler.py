"""The scheduler: queues in front of the engines of a node, and the choice of an endpoint."""

from workers.scheduling.interface import Command, Dispatch, EndpointState, Picker, Reject, Request, SchedulerConfig
from workers.scheduling.pickers import LeastOutstanding
from workers.scheduling.queues import VersionQueue


class Scheduler:
    """Every event takes `now` (seconds, any monotonic origin) and returns the commands to carry out, in order.

    Each request that arrives ends in exactly one of: a Reject, `request_finished`, `request_withdrawn`, or
    `request_failed` without a retry.
    """

    def __init__(self, config: SchedulerConfig, picker: Picker | None = None) -> None:
        self._config = config
        self._picker = picker or LeastOutstanding()
        self._requests: dict[int, Request] = {}
        self._endpoints: dict[str, EndpointState] = {}
        self._by_version: dict[str, list[EndpointState]] = {}
        self._queues: dict[str, VersionQueue] = {}
        self._queued_by_tenant: dict[str, int] = {}
        self._queued_total = 0
        self._order = 0

    # -- events: requests

    def request_arrived(self, request: Request, now: float) -> list[Command]:
        """The request runs, waits, or is refused because a queue bound is reached."""
        if not self._is_anyone_waiting(request.version_id):
            endpoint = self._pick(request, now)
            if endpoint is not None:
                self._requests[request.request_id] = request
                return [self._start(request, endpoint)]
        if self._is_queue_full(request):
            return [Reject(request.request_id, "queue_full", retry_after_s=1)]
        self._requests[request.request_id] = request
        self._enqueue(request)
        return []

    def request_finished(self, request_id: int, now: float) -> list[Command]:
        """The endpoint answered to the end; its slot is free again."""
        endpoint = self._release(self._requests.pop(request_id))
        endpoint.failures_in_a_row = 0
        endpoint.suspended_until = 0.0
        return self._fill(endpoint.version_id, now)

    def request_withdrawn(self, request_id: int, now: float) -> list[Command]:
        """The client left, or the driver gave up; the request was waiting or running."""
        request = self._requests.pop(request_id)
        if request.endpoint is None:
            self._queues[request.version_id].remove(request)
            self._count_queued(request, -1)
            return []
        return self._fill(self._release(request).version_id, now)

    def request_failed(self, request_id: int, now: float, *, may_retry: bool) -> list[Command]:
        """The endpoint failed the request. With `may_retry` (no byte has gone out) it runs again or is rejected."""
        request = self._requests[request_id]
        endpoint = self._release(request)
        self._suspend(endpoint, now)
        commands: list[Command] = []
        if may_retry and request.attempts < self._config.max_attempts:
            self._requeue(request, endpoint)
        else:
            del self._requests[request_id]
            if may_retry:
                commands.append(Reject(request_id, "attempts_exhausted"))
        return commands + self._fill(endpoint.version_id, now)

    # -- events: endpoints

    def endpoint_updated(
        self, endpoint_id: str, version_id: str, max_running: int, now: float, *, is_draining: bool
    ) -> list[Command]:
        """A new endpoint, or a change of a known one. What runs on it is left alone."""
        endpoint = self._endpoints.get(endpoint_id) or self._add_endpoint(endpoint_id, version_id, max_running)
        endpoint.max_running = max_running
        endpoint.is_draining = is_draining
        return self._fill(version_id, now)

    def endpoint_lost(self, endpoint_id: str) -> None:
        """Nothing more is sent there; what runs there ends through the driver's own events."""
        endpoint = self._endpoints.pop(endpoint_id)
        self._by_version[endpoint.version_id].remove(endpoint)

    # -- events: time

    def tick(self, now: float) -> list[Command]:
        """Takes up endpoints whose suspension is over; rejects what waited too long for a version that has none."""
        commands: list[Command] = []
        for version_id in list(self._queues):
            commands += self._fill(version_id, now)
            if not any(endpoint.is_usable(now) for endpoint in self._by_version.get(version_id, ())):
                commands += self._reject_impatient(version_id, now)
            if not self._queues[version_id].size:
                del self._queues[version_id]
        return commands

    # -- state, for reports

    def queued_by_rank(self) -> dict[int, int]:
        totals: dict[int, int] = {}
        for queue in self._queues.values():
            for rank, size in queue.size_by_rank().items():
                totals[rank] = totals.get(rank, 0) + size
        return totals

    def queued_total(self) -> int:
        return self._queued_total

    def running_total(self) -> int:
        return len(self._requests) - self._queued_total

    def is_idle(self, endpoint_id: str) -> bool:
        return self._endpoints[endpoint_id].running == 0

    # -- endpoints and slots

    def _add_endpoint(self, endpoint_id: str, version_id: str, max_running: int) -> EndpointState:
        self._order += 1
        endpoint = EndpointState(
            endpoint_id=endpoint_id, version_id=version_id, max_running=max_running, order=self._order
        )
        self._endpoints[endpoint_id] = endpoint
        self._by_version.setdefault(version_id, []).append(endpoint)
        return endpoint

    def _pick(self, request: Request, now: float) -> EndpointState | None:
        candidates = [
            endpoint
            for endpoint in self._by_version.get(request.version_id, ())
            if endpoint.running < endpoint.max_running and endpoint.is_usable(now)
        ]
        if len(candidates) > 1 and request.failed_on in candidates:
            candidates.remove(request.failed_on)
        return self._picker.pick(request, candidates) if candidates else None

    def _start(self, request: Request, endpoint: EndpointState) -> Dispatch:
        request.attempts += 1
        request.endpoint = endpoint
        endpoint.running += 1
        return Dispatch(request.request_id, endpoint.endpoint_id)

    def _release(self, request: Request) -> EndpointState:
        endpoint = request.endpoint
        assert endpoint is not None, "only a running request holds a slot"  # noqa: S101 - an invariant
        request.endpoint = None
        endpoint.running -= 1
        return endpoint

    def _suspend(self, endpoint: EndpointState, now: float) -> None:
        pause_s = self._config.suspend_s * 2.0 ** min(endpoint.failures_in_a_row, 16)
        endpoint.suspended_until = now + min(pause_s, self._config.max_suspend_s)
        endpoint.failures_in_a_row += 1

    # -- queues

    def _is_anyone_waiting(self, version_id: str) -> bool:
        queue = self._queues.get(version_id)
        return queue is not None and queue.size > 0

    def _is_queue_full(self, request: Request) -> bool:
        queued_of_tenant = self._queued_by_tenant.get(request.tenant_id, 0)
        return (
            queued_of_tenant >= request.max_queued_of_tenant or self._queued_total >= self._config.max_queued_requests
        )

    def _enqueue(self, request: Request) -> None:
        self._queues.setdefault(request.version_id, VersionQueue()).append(request)
        self._count_queued(request, 1)

    def _requeue(self, request: Request, failed_on: EndpointState) -> None:
        request.failed_on = failed_on
        self._queues.setdefault(request.version_id, VersionQueue()).append_first(request)
        self._count_queued(request, 1)

    def _count_queued(self, request: Request, change: int) -> None:
        self._queued_total += change
        count = self._queued_by_tenant.get(request.tenant_id, 0) + change
        if count:
            self._queued_by_tenant[request.tenant_id] = count
        else:
            del self._queued_by_tenant[request.tenant_id]

    def _fill(self, version_id: str, now: float) -> list[Command]:
        """Sends waiting requests while an endpoint has room."""
        queue = self._queues.get(version_id)
        commands: list[Command] = []
        while queue is not None and queue.size:
            endpoint = self._pick(queue.first(), now)
            if endpoint is None:
                break
            request = queue.pop()
            self._count_queued(request, -1)
            commands.append(self._start(request, endpoint))
        return commands

    def _reject_impatient(self, version_id: str, now: float) -> list[Command]:
        oldest_welcome = now - self._config.patience_s
        commands: list[Command] = []
        for request in self._queues[version_id].arrived_before(oldest_welcome):
            commands.append(Reject(request.request_id, "no_endpoint", retry_after_s=int(self._config.patience_s)))
            commands += self.request_withdrawn(request.request_id, now)
        return commands

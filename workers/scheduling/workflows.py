"""Workflows of dependent calls: how much of one is still to come, and when it is lost."""

import heapq

from workers.scheduling.interface import Request

MAX_WORKFLOWS = 10_000
LEARNING_RATE = 0.05
FORGET_AFTER_S = 600.0


class Workflow:
    """`live` are its requests in the scheduler's hands."""

    __slots__ = ("calls", "deadline_at", "live", "seen_at", "tenant_id")

    def __init__(self, tenant_id: str, deadline_at: float | None, now: float) -> None:
        self.tenant_id = tenant_id
        self.deadline_at = deadline_at
        self.live: dict[int, None] = {}
        self.calls = 0
        self.seen_at = now


class _Kind:
    """What the workflows of one tenant are like: calls in all, and from one call's arrival to the next one's."""

    __slots__ = ("calls", "cycle_s")

    def __init__(self) -> None:
        self.calls = 1.0
        self.cycle_s = 0.0


class Workflows:
    """At most MAX_WORKFLOWS are remembered; the longest unseen is forgotten first, and teaches how long they get."""

    def __init__(self) -> None:
        self._workflows: dict[str, Workflow] = {}
        self._kinds: dict[str, _Kind] = {}
        self._deadlines: list[tuple[float, str]] = []

    def __len__(self) -> int:
        return len(self._workflows)

    def arrived(self, request: Request, now: float) -> None:
        if not request.workflow_id:
            return
        workflow = self._workflows.pop(request.workflow_id, None)
        if workflow is None:
            workflow = self._begin(request, now)
        else:
            kind = self._kinds[workflow.tenant_id]
            kind.cycle_s += LEARNING_RATE * (now - workflow.seen_at - kind.cycle_s)
        self._workflows[request.workflow_id] = workflow
        workflow.calls += 1
        workflow.seen_at = now
        workflow.live[request.request_id] = None
        self._forget(now)

    def ended(self, request: Request) -> None:
        workflow = self._workflows.get(request.workflow_id)
        if workflow is not None:
            workflow.live.pop(request.request_id, None)

    def expected_rest_s(self, request: Request) -> float:
        """After this call: the calls that workflows of the tenant still make at this point, as fast as they come."""
        workflow = self._workflows.get(request.workflow_id)
        if workflow is None:
            return 0.0
        kind = self._kinds[workflow.tenant_id]
        return max(0.0, kind.calls - workflow.calls) * kind.cycle_s

    def lost(self, now: float) -> list[int]:
        """Requests of workflows whose deadline has passed, each once."""
        requests: list[int] = []
        while self._deadlines and self._deadlines[0][0] < now:
            _, workflow_id = heapq.heappop(self._deadlines)
            workflow = self._workflows.get(workflow_id)
            if workflow is not None:
                requests += workflow.live
        return requests

    def _begin(self, request: Request, now: float) -> Workflow:
        self._kinds.setdefault(request.tenant_id, _Kind())
        if len(self._deadlines) > 2 * MAX_WORKFLOWS:
            self._deadlines = sorted(item for item in self._deadlines if item[1] in self._workflows)
        if request.deadline_at is not None:
            heapq.heappush(self._deadlines, (request.deadline_at, request.workflow_id))
        return Workflow(request.tenant_id, request.deadline_at, now)

    def _forget(self, now: float) -> None:
        while self._workflows:
            workflow_id = next(iter(self._workflows))
            workflow = self._workflows[workflow_id]
            if len(self._workflows) <= MAX_WORKFLOWS and now - workflow.seen_at < FORGET_AFTER_S:
                return
            kind = self._kinds[workflow.tenant_id]
            kind.calls += LEARNING_RATE * (workflow.calls - kind.calls)
            del self._workflows[workflow_id]

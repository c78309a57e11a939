"""Workflows of dependent calls: how much of one is still to come, and when it is lost."""

import heapq
from math import inf

from msgspec import Struct

from workers.scheduling.greediest import Greediest
from workers.scheduling.interface import CancelReason, Request

MAX_WORKFLOWS = 10_000
LEARNING_RATE = 0.05
FORGET_AFTER_S = 600.0
Key = tuple[str, str]


class Waste(Struct):
    """What workflows that were cut off had used, with what their last calls took until they were stopped."""

    workflows: int = 0
    tokens: int = 0
    service_s: float = 0.0

    def add(self, tokens: int, service_s: float) -> None:
        self.tokens += tokens
        self.service_s += service_s


class Workflow:
    """`live` are its requests in the scheduler's hands; `attained_s` is the service that its calls had, of one engine.

    `lost` says why it was cut off; nothing of it is served after that.
    """

    __slots__ = ("attained_s", "calls", "deadline_at", "live", "lost", "picodollars", "seen_at", "tenant_id", "tokens")

    def __init__(self, tenant_id: str, now: float) -> None:
        self.tenant_id = tenant_id
        self.deadline_at: float | None = None
        self.live: dict[int, None] = {}
        self.calls = 0
        self.seen_at = now
        self.attained_s = 0.0
        self.tokens = 0
        self.picodollars = 0
        self.lost: CancelReason | None = None

    def used(self, request: Request, output_tokens: int, service_s: float) -> None:
        """By a call that has ended."""
        self.attained_s += service_s
        self.tokens += request.prompt_tokens + output_tokens
        self.picodollars += request.prompt_tokens * request.picodollars_per_input_token
        self.picodollars += output_tokens * request.picodollars_per_output_token

    def exceeds_budget(self, request: Request, tokens: int) -> bool:
        """With so many tokens to come."""
        if request.workflow_tokens is not None and self.tokens + tokens > request.workflow_tokens:
            return True
        to_come = tokens * request.picodollars_per_input_token
        return request.workflow_picodollars is not None and self.picodollars + to_come > request.workflow_picodollars


class _Kind:
    """What the workflows of one tenant are like: calls in all, and from one call's arrival to the next one's."""

    __slots__ = ("calls", "cycle_s")

    def __init__(self) -> None:
        self.calls = 1.0
        self.cycle_s = 0.0


class Workflows:
    """At most MAX_WORKFLOWS are remembered. What is forgotten teaches how long they get.

    That is the longest unseen of the tenant that has most: nobody's workflows are forgotten for another's many ids. A
    workflow belongs to one tenant: ids of two tenants never meet.
    """

    def __init__(self) -> None:
        self._workflows: dict[Key, Workflow] = {}
        self._of_tenant: dict[str, dict[Key, None]] = {}
        self._greediest = Greediest()
        self._kinds: dict[str, _Kind] = {}
        self._deadlines: list[tuple[float, Key]] = []
        self.waste = Waste()

    def __len__(self) -> int:
        return len(self._workflows)

    def arrived(self, request: Request, now: float) -> CancelReason | None:
        """Why it may not be served, if it may not."""
        if not request.workflow_id:
            return None
        key = _key(request)
        workflow = self._workflows.get(key)
        if workflow is None:
            workflow = Workflow(request.tenant_id, now)
            self._greediest.add(request.tenant_id)
        else:
            kind = self._kind_of(workflow.tenant_id)
            kind.cycle_s += LEARNING_RATE * (now - workflow.seen_at - kind.cycle_s)
        self._see(key, workflow, now)
        self._note_deadline(workflow, request)
        workflow.calls += 1
        workflow.live[request.request_id] = None
        self._forget(now)
        if workflow.lost is None and workflow.exceeds_budget(request, request.prompt_tokens):
            self._lose(workflow, "workflow_budget")
        return workflow.lost

    def ended(self, request: Request, output_tokens: int = 0, service_s: float = 0.0) -> None:
        """`service_s` is what the call took of an engine."""
        workflow = self._workflows.get(_key(request)) if request.workflow_id else None
        if workflow is None:
            return
        workflow.live.pop(request.request_id, None)
        if service_s:
            workflow.used(request, output_tokens, service_s)
            if workflow.lost is not None:
                self.waste.add(request.prompt_tokens + output_tokens, service_s)

    def overspent(self, request: Request) -> list[int]:
        """Requests to stop, each once, when what has ended used up the budget."""
        workflow = self._workflows.get(_key(request)) if request.workflow_id else None
        if workflow is None or workflow.lost is not None or not workflow.exceeds_budget(request, 0):
            return []
        self._lose(workflow, "workflow_budget")
        return list(workflow.live)

    def doom(self, request: Request) -> list[int]:
        """Its deadline cannot be met any more: its other requests, to be stopped, if it is the workflow's deadline."""
        workflow = self._workflows.get(_key(request)) if is_of_workflow(request) else None
        if workflow is None or workflow.lost is not None:
            return []
        self._lose(workflow, "workflow_deadline")
        return [request_id for request_id in workflow.live if request_id != request.request_id]

    def attained_s(self, request: Request) -> float:
        workflow = self._workflows.get(_key(request))
        return workflow.attained_s if workflow is not None else 0.0

    def due_at(self, request: Request) -> float:
        """When its answer is due: by its own deadline, and early enough for the calls to come before the workflow's."""
        own = inf if request.deadline_at is None else request.deadline_at
        whole = _deadline_of(request) if request.workflow_id else None
        return own if whole is None else min(own, whole - self.expected_rest_s(request))

    def expected_rest_s(self, request: Request) -> float:
        """After this call: the calls still to come, as fast as they come.

        How many is what the client expects, or else what workflows of the tenant still make at this point.
        """
        workflow = self._workflows.get(_key(request))
        if workflow is None:
            return 0.0
        kind = self._kind_of(workflow.tenant_id)
        calls = request.workflow_steps or kind.calls
        return max(0.0, calls - workflow.calls) * kind.cycle_s

    def lost(self, now: float) -> list[int]:
        """Requests of workflows whose deadline has passed, each once."""
        requests: list[int] = []
        while self._deadlines and self._deadlines[0][0] < now:
            _, key = heapq.heappop(self._deadlines)
            workflow = self._workflows.get(key)
            if workflow is not None and workflow.lost is None:
                if workflow.live:
                    self._lose(workflow, "workflow_deadline")
                requests += workflow.live
        return requests

    def _lose(self, workflow: Workflow, reason: CancelReason) -> None:
        workflow.lost = reason
        self.waste.workflows += 1
        self.waste.add(workflow.tokens, workflow.attained_s)

    def _note_deadline(self, workflow: Workflow, request: Request) -> None:
        """That of the first call that names one."""
        deadline_at = _deadline_of(request)
        if workflow.deadline_at is not None or deadline_at is None:
            return
        workflow.deadline_at = deadline_at
        if len(self._deadlines) > 2 * MAX_WORKFLOWS:
            self._deadlines = sorted(item for item in self._deadlines if item[1] in self._workflows)
        heapq.heappush(self._deadlines, (deadline_at, _key(request)))

    def _kind_of(self, tenant_id: str) -> _Kind:
        kind = self._kinds.get(tenant_id)
        if kind is None:
            kind = self._kinds[tenant_id] = _Kind()
            if len(self._kinds) > MAX_WORKFLOWS:
                del self._kinds[next(iter(self._kinds))]
        return kind

    def _see(self, key: Key, workflow: Workflow, now: float) -> None:
        """Both orders are by when a workflow was seen last."""
        workflow.seen_at = now
        self._workflows.pop(key, None)
        self._workflows[key] = workflow
        theirs = self._of_tenant.setdefault(workflow.tenant_id, {})
        theirs.pop(key, None)
        theirs[key] = None

    def _forget(self, now: float) -> None:
        """The one just seen is never among them, nor for its age what has live calls."""
        while True:
            key, workflow = next(iter(self._workflows.items()))
            if now - workflow.seen_at >= FORGET_AFTER_S:
                if workflow.live:
                    self._see(key, workflow, now)
                else:
                    self._drop(key)
            elif len(self._workflows) > MAX_WORKFLOWS:
                self._drop(next(iter(self._of_tenant[self._greediest.first()])))
            else:
                return

    def _drop(self, key: Key) -> None:
        workflow = self._workflows.pop(key)
        kind = self._kind_of(workflow.tenant_id)
        kind.calls += LEARNING_RATE * (workflow.calls - kind.calls)
        self._greediest.remove(workflow.tenant_id)
        theirs = self._of_tenant[workflow.tenant_id]
        del theirs[key]
        if not theirs:
            del self._of_tenant[workflow.tenant_id]


def is_of_workflow(request: Request) -> bool:
    """Whether the deadline of a request is its workflow's, and not one of its own that is earlier."""
    return bool(request.workflow_id) and _deadline_of(request) == request.deadline_at


def _deadline_of(request: Request) -> float | None:
    """Of its workflow."""
    if request.workflow_deadline_at is None:
        return request.deadline_at
    return request.workflow_deadline_at or None


def _key(request: Request) -> Key:
    return request.tenant_id, request.workflow_id

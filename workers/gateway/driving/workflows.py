"""Workflows as the gateway keeps them: what each may take, what it has taken, and which of its requests are alive.

The scheduler orders their calls; budgets are kept here, because what a call has cost is known here.
"""

from collections import OrderedDict
from collections.abc import Mapping
from itertools import islice

from msgspec import Struct, field

from workers.gateway import errors
from workers.gateway.http.numbers import read_money, read_number
from workers.gateway.payload.labels import (
    WORKFLOW_COST,
    WORKFLOW_DEADLINE,
    WORKFLOW_ID,
    WORKFLOW_STEP,
    WORKFLOW_STEPS,
    WORKFLOW_TOKENS,
    WORKFLOW_TRAITS,
)
from workers.scheduling.greediest import Greediest
from workers.scheduling.interface import Request

MAX_WORKFLOWS = 10_000
# To other processes, each second.
MAX_TOLD = 1000
MAX_ID_BYTES = 128
MAX_STEPS = 1_000_000
MAX_DEADLINE_MS = 30 * 24 * 3600 * 1000
MAX_TOKENS = 10**15


class Asked(Struct, frozen=True, kw_only=True):
    """What one call says of its workflow; 0 is nothing."""

    workflow_id: str
    step: int = 0
    steps_expected: int = 0
    deadline_ms: int = 0
    token_budget: int = 0
    cost_budget_pico_usd: int = 0


class Workflow(Struct, eq=False):
    """`deadline_at` counts from the first call. Budgets are those that its latest call named; 0 is none."""

    deadline_at: float | None = None
    token_budget: int = 0
    cost_budget_pico_usd: int = 0
    tokens: int = 0
    cost_pico_usd: int = 0
    calls: int = 0
    alive: dict[int, None] = field(default_factory=dict)

    @property
    def has_budget(self) -> bool:
        return bool(self.token_budget or self.cost_budget_pico_usd)

    def is_over_budget(self, elsewhere: tuple[int, int]) -> bool:
        tokens, cost_pico_usd = self.tokens + elsewhere[0], self.cost_pico_usd + elsewhere[1]
        return bool(
            (self.token_budget and tokens >= self.token_budget)
            or (self.cost_budget_pico_usd and cost_pico_usd >= self.cost_budget_pico_usd)
        )


def read_workflow(noted: Mapping[bytes, bytes]) -> Asked | None:
    """None when the call belongs to none. Raises a 400 that names the header when a value is unsound."""
    given = noted.get(WORKFLOW_ID, b"")
    if not given:
        lonely = next((name for name in WORKFLOW_TRAITS if name in noted), None)
        if lonely is not None:
            raise errors.bad_header(lonely.decode(), "accompanied by x-workflow-id, which names the workflow")
        return None
    if len(given) > MAX_ID_BYTES:
        raise errors.bad_header(WORKFLOW_ID.decode(), f"at most {MAX_ID_BYTES} bytes long")
    return Asked(
        workflow_id=given.decode("utf-8", "replace"),
        step=_read(noted, WORKFLOW_STEP, MAX_STEPS),
        steps_expected=_read(noted, WORKFLOW_STEPS, MAX_STEPS),
        deadline_ms=_read(noted, WORKFLOW_DEADLINE, MAX_DEADLINE_MS),
        token_budget=_read(noted, WORKFLOW_TOKENS, MAX_TOKENS),
        cost_budget_pico_usd=read_money(noted, WORKFLOW_COST) if WORKFLOW_COST in noted else 0,
    )


def _read(noted: Mapping[bytes, bytes], name: bytes, most: int) -> int:
    return read_number(noted, name, most) if name in noted else 0


class Workflows:
    """At most MAX_WORKFLOWS; the longest unseen of the tenant that has most is forgotten first.

    It starts afresh if it comes again; nobody's budgets are forgotten for another's many ids. What a workflow has taken
    at other processes of the gateway counts, as it was a second ago.
    """

    def __init__(self) -> None:
        self._workflows: OrderedDict[str, Workflow] = OrderedDict()
        self._of_tenant: dict[str, OrderedDict[str, None]] = {}
        self._greediest = Greediest()
        self._elsewhere: dict[str, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._workflows)

    def join(self, request: Request, asked: Asked) -> None:
        """Makes the request a call of the workflow. Raises when that may take no more."""
        workflow_id = f"{request.tenant_id}/{asked.workflow_id}"
        workflow = self._find(workflow_id)
        if asked.deadline_ms and workflow.deadline_at is None:
            workflow.deadline_at = request.arrived_at + asked.deadline_ms / 1000
        workflow.token_budget = asked.token_budget or workflow.token_budget
        workflow.cost_budget_pico_usd = asked.cost_budget_pico_usd or workflow.cost_budget_pico_usd
        workflow.calls += 1
        if workflow.deadline_at is not None and workflow.deadline_at <= request.arrived_at:
            raise errors.workflow_deadline()
        if self._is_over_budget(workflow_id, workflow):
            raise errors.workflow_budget()
        request.workflow_id = workflow_id
        request.workflow_steps = asked.steps_expected
        request.workflow_deadline_at = workflow.deadline_at or 0.0
        request.deadline_at = _earlier(request.deadline_at, workflow.deadline_at)

    def began(self, request: Request) -> None:
        self._find(request.workflow_id).alive[request.request_id] = None

    def ended(self, request: Request) -> None:
        workflow = self._workflows.get(request.workflow_id)
        if workflow is not None:
            workflow.alive.pop(request.request_id, None)

    def spent(self, workflow_id: str, tokens: int, cost_pico_usd: int) -> list[int]:
        """The requests that must end because the budget is used up."""
        workflow = self._workflows.get(workflow_id)
        if workflow is None:
            return []
        workflow.tokens += tokens
        workflow.cost_pico_usd += cost_pico_usd
        return list(workflow.alive) if self._is_over_budget(workflow_id, workflow) else []

    def told(self) -> dict[str, tuple[int, int]]:
        """What those with a budget have taken here, for other processes: of the latest."""
        latest = islice(reversed(self._workflows.items()), MAX_TOLD)
        return {name: (each.tokens, each.cost_pico_usd) for name, each in latest if each.has_budget and each.tokens}

    def note_elsewhere(self, spent: dict[str, tuple[int, int]]) -> list[int]:
        """Returns the requests that must end because of it."""
        self._elsewhere = spent
        known = [(name, self._workflows[name]) for name in spent if name in self._workflows]
        return [number for name, each in known if self._is_over_budget(name, each) for number in each.alive]

    def _is_over_budget(self, workflow_id: str, workflow: Workflow) -> bool:
        return workflow.is_over_budget(self._elsewhere.get(workflow_id, (0, 0)))

    def _find(self, workflow_id: str) -> Workflow:
        workflow = self._workflows.get(workflow_id)
        if workflow is None:
            workflow = self._workflows[workflow_id] = Workflow()
            self._greediest.add(_tenant_of(workflow_id))
            self._of_tenant.setdefault(_tenant_of(workflow_id), OrderedDict())[workflow_id] = None
        self._workflows.move_to_end(workflow_id)
        self._of_tenant[_tenant_of(workflow_id)].move_to_end(workflow_id)
        if len(self._workflows) > MAX_WORKFLOWS:
            self._forget_one()
        return workflow

    def _forget_one(self) -> None:
        tenant_id = self._greediest.first()
        theirs = self._of_tenant[tenant_id]
        del self._workflows[theirs.popitem(last=False)[0]]
        self._greediest.remove(tenant_id)
        if not theirs:
            del self._of_tenant[tenant_id]


def _tenant_of(workflow_id: str) -> str:
    return workflow_id.partition("/")[0]


def _earlier(one: float | None, other: float | None) -> float | None:
    return min((at for at in (one, other) if at is not None), default=None)

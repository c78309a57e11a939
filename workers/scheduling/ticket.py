"""What the scheduler keeps of a request between its arrival and its end."""

from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from workers.scheduling.interface import Request

if TYPE_CHECKING:
    from workers.scheduling.endpoint import EndpointModel


class State(Enum):
    """NEW: not judged yet. KEPT: in the plan. PARKED: let go by the plan, run if room appears. LATE: too late."""

    NEW = "new"
    KEPT = "kept"
    PARKED = "parked"
    LATE = "late"
    SENT = "sent"
    GONE = "gone"


class Ticket:
    """Times are on the driver's clock.

    `cost_s` is what the request takes of an endpoint's time, `prefill_s` the part before its first token, both at the
    endpoint that suits it best; `density` is its weight over its cost.

    `start_by` is the latest start of its prefill; `finish_by` the same as the plan needs it, for a fleet that works on
    many requests at once; `give_up_at` when late work is refused. Without `has_limit` the first only orders.
    """

    __slots__ = (
        "attempts",
        "cost_s",
        "density",
        "endpoint",
        "failed_on",
        "finish_by",
        "first_token_at",
        "generated_tokens",
        "give_up_at",
        "has_limit",
        "hit_tokens",
        "hits",
        "kv_s",
        "kv_tokens",
        "number",
        "output_tokens",
        "prefill_s",
        "prefill_until",
        "request",
        "sent_at",
        "slot",
        "start_by",
        "state",
        "weight",
    )

    def __init__(self, request: Request, number: int) -> None:
        self.request = request
        self.number = number
        self.state = State.NEW
        self.weight = 1.0
        self.output_tokens = 1.0
        self.cost_s = self.prefill_s = self.kv_s = 0.0
        self.density = inf
        self.start_by = self.finish_by = self.give_up_at = inf
        self.has_limit = False
        self.slot = 0
        self.hit_tokens = 0
        self.hits: dict[int, int] = {}
        self.endpoint: EndpointModel | None = None
        self.failed_on: EndpointModel | None = None
        self.attempts = 0
        self.generated_tokens = 0
        self.sent_at = 0.0
        self.prefill_until = 0.0
        self.first_token_at: float | None = None
        self.kv_tokens = 0.0

    def __repr__(self) -> str:
        return f"Ticket({self.request.request_id} {self.state.value}, start by {self.start_by:.3f})"

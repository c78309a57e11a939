"""What the scheduler keeps of a request between its arrival and its end."""

from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from msgspec import Struct

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


class Ticket(Struct, eq=False):
    """Times are on the driver's clock. `version_id` is where it waits or runs: its own, or one of its alternatives.

    `cost_s` is what the request takes of an endpoint's time, `prefill_s` the part before its first token, both at the
    endpoint that suits it best; `density` is its weight over its cost.

    `first_token_by` is its limit, `start_by` the latest start of its prefill for that; `finish_by` the same as the plan
    needs it, for a fleet that works on many requests at once; `give_up_at` when late work is refused. Without
    `has_limit` they only order.
    `hopeless_at` is the latest start that leaves a deadline any chance, on an empty fleet and with a short answer.
    """

    request: Request
    number: int
    version_id: str = ""
    state: State = State.NEW
    weight: float = 1.0
    output_tokens: float = 1.0
    cost_s: float = 0.0
    prefill_s: float = 0.0
    kv_s: float = 0.0
    density: float = inf
    first_token_by: float = inf
    start_by: float = inf
    finish_by: float = inf
    give_up_at: float = inf
    hopeless_at: float = inf
    has_limit: bool = False
    slot: int = 0
    hit_tokens: int = 0
    hits: dict[int, int] = {}
    endpoint: "EndpointModel | None" = None
    failed_on: "EndpointModel | None" = None
    attempts: int = 0
    generated_tokens: int = 0
    sent_at: float = 0.0
    prefill_until: float = 0.0
    first_token_at: float | None = None
    kv_tokens: float = 0.0

    def __repr__(self) -> str:
        return f"Ticket({self.request.request_id} {self.state.value}, start by {self.start_by:.3f})"

"""What the scheduler keeps of a request between its arrival and its end."""

from enum import Enum
from math import inf
from typing import TYPE_CHECKING

from workers.scheduling.interface import Request

if TYPE_CHECKING:
    from workers.scheduling.endpoint import EndpointModel


class State(Enum):
    """KEPT: in the plan. PARKED: let go by the plan, run if room appears. LATE: cannot be in time any more."""

    KEPT = "kept"
    PARKED = "parked"
    LATE = "late"
    SENT = "sent"
    GONE = "gone"


class Ticket:
    """Times are the driver's clock. `cost_s` is what the request takes of an endpoint's time, at its best endpoint;
    `prefill_s` the part before the first token, `work_s` that part as the plan counts it.

    `start_by` is the latest start of its prefill; `finish_by` the same as the plan needs it, for a fleet that works on
    many requests at once. `hits` are (cached blocks, mask of endpoints), the longest first.
    """

    __slots__ = (
        "attempts",
        "cost_s",
        "decode_s",
        "density",
        "endpoint",
        "failed_on",
        "finish_by",
        "first_token_at",
        "give_up_at",
        "hit_tokens",
        "hits",
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
        "version",
        "weight",
        "work_s",
    )

    def __init__(self, request: Request, number: int) -> None:
        self.request = request
        self.number = number
        self.state = State.KEPT
        self.weight = 1.0
        self.output_tokens = 1.0
        self.cost_s = self.prefill_s = self.decode_s = self.work_s = 0.0
        self.density = inf
        self.start_by = self.finish_by = self.give_up_at = inf
        self.slot = 0
        self.version = 0
        self.hits: list[tuple[int, int]] = []
        self.hit_tokens = 0
        self.endpoint: EndpointModel | None = None
        self.failed_on: EndpointModel | None = None
        self.attempts = 0
        self.sent_at = 0.0
        self.prefill_until = 0.0
        self.first_token_at: float | None = None
        self.kv_tokens = 0.0

    def __repr__(self) -> str:
        return f"Ticket({self.request.request_id} {self.state.value}, start by {self.start_by:.3f})"

"""What the scheduler keeps of a request between its arrival and its end."""

from enum import Enum
from typing import TYPE_CHECKING, Final

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


Matches = list[tuple[int, int]]
"""Counts of leading blocks that are cached, and the bit masks of the endpoints that have them."""
_NEW: Final = State.NEW
_NEVER: Final = float("inf")
_NO_HITS: Final[dict[int, int]] = {}
_NO_MATCHES: Final[Matches] = []


class Ticket:
    """Times are on the driver's clock. `version_id` is where it waits or runs: its own, or one of its alternatives.

    `cost_s` is what the request takes of an endpoint's time, `prefill_s` the part before its first token, both at the
    endpoint that suits it best; `density` is its weight over its cost, and counts
    `guard` times as much where it is about who gives way. Of what an endpoint can hold, `kv_s` are seconds
    of all its KV cache, `room_s` those of the scarcer of that and its sequences, one of which it has for `stay_s`.

    `first_token_by` is its limit, `start_by` the latest start of its prefill for that; `finish_by` the same as the plan
    needs it, for a fleet that works on many requests at once; `give_up_at` when late work is refused. Without
    `has_limit` they only order. `is_in_vain`: it can hardly be in time, whoever else asks: its first token comes at the
    end of a step, and a full one may just have begun.
    `waits_since` is its arrival, or when its last attempt failed. Of an answer that goes on elsewhere
    `generated_tokens` have gone out: `prompt_tokens`, which are read where it runs next, count them, and
    `output_tokens` are what is to come.
    `hits` are cached tokens by endpoint, by `matches`, which the index gave after `matched_at` changes, of which
    `matched_like` were of prompts that begin alike.
    `hopeless_at` is the latest start that leaves a deadline any chance, on an empty fleet and with a short answer; and
    `first_token_s` what the first token takes at the least, of one with a deadline on engines of known speed.
    """

    state: State = _NEW
    weight: float = 1.0
    output_tokens: float = 1.0
    cost_s: float = 0.0
    prefill_s: float = 0.0
    kv_s: float = 0.0
    stay_s: float = 0.0
    room_s: float = 0.0
    density: float = _NEVER
    guard: float = 1.0
    first_token_by: float = _NEVER
    start_by: float = _NEVER
    finish_by: float = _NEVER
    give_up_at: float = _NEVER
    hopeless_at: float = _NEVER
    first_token_s: float = 0.0
    has_limit: bool = False
    is_in_vain: bool = False
    slot: int = 0
    hit_tokens: int = 0
    hits: dict[int, int] = _NO_HITS
    matches: Matches = _NO_MATCHES
    matched_at: int = 0
    matched_like: int = 0
    endpoint: "EndpointModel | None" = None
    failed_on: "EndpointModel | None" = None
    attempts: int = 0
    generated_tokens: int = 0
    waits_since: float = 0.0
    sent_at: float = 0.0
    prefill_until: float = 0.0
    first_token_at: float | None = None
    kv_tokens: float = 0.0
    most_kv_tokens: float = 0.0

    def __init__(self, request: Request, number: int, version_id: str = "") -> None:
        self.request = request
        self.number = number
        self.version_id = version_id
        self.prompt_tokens = request.prompt_tokens
        self.waits_since = request.arrived_at

    def set_most_tokens(self, capacity: float) -> float:
        """Of the KV cache, if nothing is shared and the answer is twice as long as expected."""
        is_known = self.request.prompt_tokens > 0
        self.most_kv_tokens = self.prompt_tokens + 2 * self.output_tokens if is_known else capacity
        return self.most_kv_tokens

    def go_on_after(self, generated_tokens: int) -> None:
        """Its attempt has failed when so many tokens had gone out; 0: it begins anew."""
        self.generated_tokens = generated_tokens
        self.prompt_tokens = self.request.prompt_tokens + generated_tokens

    def tokens_here(self, output_tokens: int) -> int:
        """Of an answer that is so long by now, those of this attempt."""
        return max(0, output_tokens - self.generated_tokens)

    def __repr__(self) -> str:
        return f"Ticket({self.request.request_id} {self.state.value}, start by {self.start_by:.3f})"

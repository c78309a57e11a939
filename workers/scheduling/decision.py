"""Why a request went where it went: a value for the console, nothing is logged here."""

from msgspec import Struct


class Considered(Struct, frozen=True):
    """One endpoint: its score (predicted seconds, the least wins), or why it was out."""

    endpoint_id: str
    score: float | None = None
    prefill_s: float = 0.0
    hit_tokens: int = 0
    reason: str = ""


class Decision(Struct, frozen=True, kw_only=True):
    """`outcome` is kept, parked, late, sent or refused; `start_by` the latest start that it was judged by."""

    request_id: int
    at: float
    outcome: str
    start_by: float
    cost_s: float
    density: float
    bid_price: float
    endpoint_id: str = ""
    considered: tuple[Considered, ...] = ()

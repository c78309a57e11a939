"""Why a request went where it went: a value for the console, nothing is logged here."""

from msgspec import Struct

from workers.scheduling.ticket import State, Ticket


class Considered(Struct, frozen=True):
    """One endpoint: its score (predicted seconds, the least wins), or why it was out."""

    endpoint_id: str
    score: float | None = None
    prefill_s: float = 0.0
    hit_tokens: int = 0
    reason: str = ""


Verdict = tuple[str, float | None, float, int, str]
"""The fields of a Considered: nothing more is made of them until somebody asks."""


class Decision(Struct, frozen=True, kw_only=True):
    """`outcome` is sent or refused; `start_by` the latest start that it was judged by.

    `waited_as` is what the plan made of it while it waited: kept, parked or late; new when it did not wait, or was
    not judged. `reason` says why it was refused, `version_id` where it was sent instead of to its own version.
    """

    request_id: int
    at: float
    outcome: str
    start_by: float
    cost_s: float
    density: float
    bid_price: float
    endpoint_id: str = ""
    considered: tuple[Considered, ...] = ()
    waited_as: str = ""
    reason: str = ""
    version_id: str = ""
    attempts: int = 0


class Draft:
    """What a Decision is made from, when it is asked for: of the ticket what is true now."""

    __slots__ = (
        "at",
        "attempts",
        "bid_price",
        "considered",
        "cost_s",
        "density",
        "endpoint_id",
        "outcome",
        "reason",
        "request_id",
        "start_by",
        "version_id",
        "waited_as",
    )

    def __init__(
        self,
        *,
        ticket: Ticket,
        at: float,
        outcome: str,
        waited_as: State,
        bid_price: float,
        endpoint_id: str,
        considered: list[Verdict],
        reason: str = "",
    ) -> None:
        self.request_id = ticket.request.request_id
        self.version_id = ticket.version_id
        self.start_by = ticket.start_by
        self.cost_s = ticket.cost_s
        self.density = ticket.density
        self.attempts = ticket.attempts
        self.at = at
        self.outcome = outcome
        self.waited_as = waited_as
        self.bid_price = bid_price
        self.endpoint_id = endpoint_id
        self.considered = considered
        self.reason = reason

    def decision(self) -> Decision:
        return Decision(
            request_id=self.request_id,
            at=self.at,
            outcome=self.outcome,
            start_by=self.start_by,
            cost_s=self.cost_s,
            density=self.density,
            bid_price=self.bid_price,
            endpoint_id=self.endpoint_id,
            considered=tuple(Considered(*verdict) for verdict in self.considered),
            waited_as=self.waited_as.value,
            reason=self.reason,
            version_id=self.version_id,
            attempts=self.attempts,
        )

"""What goes into a scheduler and what comes out of it."""

from typing import Literal, Protocol

from msgspec import Struct

RejectCode = Literal["queue_full", "no_endpoint", "attempts_exhausted", "cannot_meet_deadline"]
CancelReason = Literal["workflow_deadline", "workflow_budget"]


class SchedulerConfig(Struct, frozen=True, kw_only=True):
    """`patience_s`: how long a request waits for a version that has no endpoint at all (one may be restarting).

    `max_attempts` counts dispatches of one request. `suspend_s`: how long an endpoint that failed a request gets
    nothing; it doubles with each failure in a row up to `max_suspend_s`. `max_decisions`: how many are kept until the
    driver takes them.
    """

    patience_s: float = 15.0
    max_attempts: int = 3
    suspend_s: float = 0.5
    max_suspend_s: float = 30.0
    max_queued_requests: int = 10_000
    max_decisions: int = 1000


class Request(Struct, kw_only=True, eq=False):
    """One request, as the driver knows it when it arrives. `request_id` is the driver's own, unique while alive.

    `rank` is that of the service class, 0 first. Everything from `prompt_tokens` on may be absent:

    `prompt_tokens` and `predicted_output_tokens` are estimates, 0 unknown. `prefix_blocks` number the leading blocks
    of `block_tokens` tokens each; equal numbers mean an equal prompt up to and including the block. `ttft_slo_s` and
    `tpot_slo_s` are limits, None for none. `deadline_at` is when the answer, or the whole workflow that the call
    belongs to, must be complete. `weight` is the value of an answer in time, against other requests; None takes that
    of the class.
    """

    request_id: int
    version_id: str
    tenant_id: str
    rank: int
    max_queued_of_tenant: int
    arrived_at: float
    prompt_tokens: int = 0
    predicted_output_tokens: float = 0.0
    prefix_blocks: tuple[int, ...] = ()
    block_tokens: int = 0
    ttft_slo_s: float | None = None
    tpot_slo_s: float | None = None
    deadline_at: float | None = None
    weight: float | None = None
    tenant_weight: float = 1.0
    workflow_id: str = ""


class EngineReport(Struct, frozen=True, kw_only=True):
    """What an engine said of itself at `taken_at`. `kv_usage` is a share of its capacity."""

    taken_at: float
    running: int
    waiting: int
    kv_usage: float


class Dispatch(Struct, frozen=True):
    """Send the request to the endpoint now."""

    request_id: int
    endpoint_id: str


class Reject(Struct, frozen=True):
    """Answer the request with an error; it is forgotten. `retry_after_s` is an honest guess, or None."""

    request_id: int
    code: RejectCode
    retry_after_s: int | None = None


class Cancel(Struct, frozen=True):
    """Stop the request in its engine; the driver answers with `request_withdrawn`."""

    request_id: int
    reason: CancelReason


class Migrate(Struct, frozen=True):
    """Continue a stream that its endpoint broke on another one, from the prompt plus what was generated."""

    request_id: int
    endpoint_id: str


Command = Dispatch | Reject | Cancel | Migrate


class Core(Protocol):
    """Every event takes `now` (seconds, any monotonic origin) and returns the commands to carry out, in order."""

    def endpoint_updated(
        self, endpoint_id: str, version_id: str, max_running: int, now: float, *, is_draining: bool
    ) -> list[Command]: ...
    def endpoint_reported(self, endpoint_id: str, report: EngineReport, now: float) -> list[Command]: ...
    def request_arrived(self, request: Request, now: float) -> list[Command]: ...
    def first_token(self, request_id: int, now: float) -> list[Command]: ...
    def request_finished(self, request_id: int, now: float, output_tokens: int = 0) -> list[Command]: ...
    def tick(self, now: float) -> list[Command]: ...
    def next_deadline(self) -> float | None: ...

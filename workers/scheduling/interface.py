"""What goes into a scheduler and what comes out of it."""

from typing import Literal, Protocol

from msgspec import Struct

from workers.scheduling.engine_report import EngineReport
from workers.scheduling.request import Request

__all__ = [
    "Cancel",
    "CancelReason",
    "Command",
    "Core",
    "Dispatch",
    "EngineReport",
    "KVChange",
    "Migrate",
    "Reject",
    "RejectCode",
    "RejectReason",
    "Request",
    "SchedulerConfig",
    "Suspect",
]

RejectCode = Literal["queue_full", "no_endpoint", "attempts_exhausted", "cannot_meet_deadline"]
CancelReason = Literal["workflow_deadline", "workflow_budget"]
RejectReason = Literal["", "workflow_deadline", "workflow_budget", "deadline_passed", "retry_budget"]


class SchedulerConfig(Struct, frozen=True, kw_only=True):
    """`patience_s`: how long a request waits for a version that has no endpoint at all (one may be restarting).

    `max_attempts` counts dispatches of one request. `suspend_s`: how long an endpoint that failed a request gets
    nothing; it doubles with each failure in a row up to `max_suspend_s`. `max_decisions`: how many are kept until the
    driver takes them.

    `stall_after_s`: how long an engine's counters may stand still while it has work. `retry_share`: how many tokens
    may be tried again, per tenant and per version, for one that is sent; `retry_tokens_of_tenant` and
    `retry_tokens_of_version` may be at once. `max_queued_tokens` bounds prompts and predicted answers that wait.
    """

    patience_s: float = 15.0
    max_attempts: int = 3
    suspend_s: float = 0.5
    max_suspend_s: float = 30.0
    max_queued_requests: int = 10_000
    max_decisions: int = 1000
    stall_after_s: float = 30.0
    retry_share: float = 0.2
    retry_tokens_of_tenant: float = 500_000.0
    retry_tokens_of_version: float = 2_000_000.0
    max_queued_tokens: float = 1e9


class KVChange(Struct, frozen=True, kw_only=True):
    """One event of an engine's KV cache, as vLLM publishes them: BlockStored, BlockRemoved, AllBlocksCleared.

    Blocks have the numbers that `Request.prefix_blocks` has. `stored` blocks follow `parent` and each other; what is
    cleared is so before anything is stored. With `is_last` the engine says no more: what it said stands as our guess.
    """

    stored: tuple[int, ...] = ()
    parent: int | None = None
    removed: tuple[int, ...] = ()
    is_cleared: bool = False
    is_last: bool = False


class Dispatch(Struct, frozen=True):
    """Send the request to the endpoint now.

    `version_id` is set when it runs on one of its alternatives. Dispatches of one event with the same `batch`, other
    than 0, go to the engine together.
    """

    request_id: int
    endpoint_id: str
    version_id: str = ""
    batch: int = 0


class Reject(Struct, frozen=True):
    """Answer the request with an error; it is forgotten. `retry_after_s` is an honest guess, or None.

    `reason` says more than the code where there is more to say.
    """

    request_id: int
    code: RejectCode
    retry_after_s: int | None = None
    reason: RejectReason = ""


class Cancel(Struct, frozen=True):
    """Stop the request in its engine; the driver answers with `request_withdrawn`."""

    request_id: int
    reason: CancelReason


class Migrate(Struct, frozen=True):
    """Continue a stream that its endpoint broke on another one, from the prompt plus what was generated."""

    request_id: int
    endpoint_id: str


class Suspect(Struct, frozen=True):
    """The endpoint has work and makes no progress. Nothing new is sent there until a probe shows that it works.

    Of `request_ids` no token has come: abort them in the engine and answer each with `request_failed`, `may_retry`
    unless a byte has gone out. Those that stream are left: more may come. Safe to ignore.
    """

    endpoint_id: str
    request_ids: tuple[int, ...]


Command = Dispatch | Reject | Cancel | Migrate | Suspect


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

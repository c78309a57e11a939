"""What goes into the scheduler and what comes out of it."""

from typing import Literal, Protocol

from msgspec import Struct

RejectCode = Literal["queue_full", "no_endpoint", "attempts_exhausted"]


class SchedulerConfig(Struct, frozen=True, kw_only=True):
    """`patience_s`: how long a request waits for a version that has no endpoint at all (one may be restarting).

    `max_attempts` counts dispatches of one request. `suspend_s`: how long an endpoint that failed a request gets
    nothing; it doubles with each failure in a row up to `max_suspend_s`.
    """

    patience_s: float = 15.0
    max_attempts: int = 3
    suspend_s: float = 0.5
    max_suspend_s: float = 30.0
    max_queued_requests: int = 10_000


class EndpointState(Struct, kw_only=True, eq=False):
    """Own counts are the truth for what we sent: nothing that an engine reports ever changes `running`."""

    endpoint_id: str
    version_id: str
    max_running: int
    order: int
    running: int = 0
    is_draining: bool = False
    failures_in_a_row: int = 0
    suspended_until: float = 0.0

    def is_usable(self, now: float) -> bool:
        return not self.is_draining and self.suspended_until <= now


class Request(Struct, kw_only=True, eq=False):
    """One request waiting or running. `rank` 0 is served first; `request_id` is the driver's own, unique while alive.

    `endpoint` is where it runs, None while it waits; `failed_on` is where its last attempt failed.
    """

    request_id: int
    version_id: str
    tenant_id: str
    rank: int
    max_queued_of_tenant: int
    arrived_at: float
    attempts: int = 0
    endpoint: EndpointState | None = None
    failed_on: EndpointState | None = None


class Dispatch(Struct, frozen=True):
    """Send the request to the endpoint now."""

    request_id: int
    endpoint_id: str


class Reject(Struct, frozen=True):
    """Answer the request with an error; it is forgotten. `retry_after_s` is an honest guess, or None."""

    request_id: int
    code: RejectCode
    retry_after_s: int | None = None


Command = Dispatch | Reject


class Picker(Protocol):
    """Chooses among endpoints of one version that have room; `candidates` is never empty."""

    def pick(self, request: Request, candidates: list[EndpointState]) -> EndpointState: ...

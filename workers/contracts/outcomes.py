"""Whether a task succeeded, as the client says it: `POST /v1/outcomes` at a gateway."""

from msgspec import Struct


class TaskOutcome(Struct, frozen=True, kw_only=True):
    """About one request or about a whole workflow: exactly one of the two ids is given.

    It counts for the tenant of the key that reported it, and only with that tenant's requests. The newest report of a
    task (by `arrived_at` of its record) holds, so that a report may be repeated and corrected. `value_pico_usd` is what
    the task was worth to the client, in picodollars, None when it did not say.
    """

    request_id: str = ""
    workflow_id: str = ""
    is_success: bool
    value_pico_usd: int | None = None

"""One record per request, written by the gateway, stored exactly once by the control plane."""

from typing import Literal

from msgspec import Struct, field

Outcome = Literal[
    "completed",  # the engine answered 2xx and the whole answer was sent
    "client_left",  # the client closed before the end
    "rejected",  # refused by the engine as a bad request (4xx)
    "refused",  # refused by us: queue full, no endpoint, shutting down
    "failed",  # engine or upstream error, in-band or 5xx
]
UsageSource = Literal[
    "engine",  # as the engine reported it, to the token
    "estimated",  # the engine did not say; see docs/architecture.md, Metering
    "none",  # the request never reached an engine, so nothing was used
]


class UsageRecord(Struct, frozen=True, kw_only=True):
    """`sequence` counts up by one within (`gateway_id`, `boot_id`), so that a gap shows a lost record.

    Tokens: `input_tokens` includes `cached_input_tokens`. Money is an integer of picodollars (1e-12 USD).
    `arrived_at` is in Unix seconds. `queue_ms` is None when the request was never dispatched, `ttft_ms` when no token
    came, or of an answer in one piece whose engine did not tell. `end_user` is the client's own `user` field,
    `user_id` the owner of the key.
    """

    record_id: str
    gateway_id: str
    boot_id: str
    sequence: int
    request_id: str
    arrived_at: float
    tenant_id: str
    key_id: str
    user_id: str
    end_user: str
    path: str
    public_model: str
    version_id: str
    deployment_id: str
    endpoint_id: str
    node_id: str
    service_class: str
    is_stream: bool
    status: int
    outcome: Outcome
    usage_source: UsageSource
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    queue_ms: float | None
    ttft_ms: float | None
    total_ms: float
    cost_pico_usd: int
    attempts: int = 1
    reasoning_tokens: int = 0
    error_code: str = ""
    tags: dict[str, str] = field(default_factory=dict)

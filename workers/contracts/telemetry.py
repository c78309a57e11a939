"""What a node looks like now. None means unknown, which is never zero."""

from msgspec import Struct, field


class ReplicaReport(Struct, frozen=True, kw_only=True):
    """`state` is one of starting, warming, ready, degraded, draining, stopped, failed; `detail` says why in words."""

    replica_id: str
    state: str
    spec_hash: str = ""
    detail: str = ""
    pid: int | None = None
    port: int | None = None
    restarts: int = 0
    running_requests: int | None = None
    waiting_requests: int | None = None
    kv_used_ratio: float | None = None
    generated_tokens_total: int | None = None
    prompt_tokens_total: int | None = None
    kv_capacity_tokens: int | None = None
    block_tokens: int | None = None
    log_tail: list[str] = field(default_factory=list)


class AcceleratorReport(Struct, frozen=True, kw_only=True):
    """`kind` is "gpu" or "cpu"; the CPU stands in where there is no GPU."""

    index: int
    kind: str
    name: str
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    utilisation_ratio: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None


class GatewayReport(Struct, frozen=True, kw_only=True):
    """Counters are totals since the gateway process `boot_id` started; rates are differences taken by the reader.

    `ttft_ms_p50` and `_p95` are over requests whose first token came in the last 60 s; None when there were none.
    """

    gateway_id: str
    boot_id: str
    active_generation: int
    snapshot_error: str = ""
    spool_error: str = ""
    running_requests: int = 0
    queued_requests: int = 0
    queued_by_class: dict[str, int] = field(default_factory=dict)
    requests_total: int = 0
    refused_total: int = 0
    failed_total: int = 0
    input_tokens_total: int = 0
    output_tokens_total: int = 0
    ttft_ms_p50: float | None = None
    ttft_ms_p95: float | None = None
    spool_pending_records: int = 0
    endpoints_up: int = 0
    endpoints_total: int = 0


class NodeTelemetry(Struct, frozen=True, kw_only=True):
    """Sent once a second.

    `desired_generation` and `snapshot_generation` say what the agent holds: the control plane sends the newer one
    whenever they lag, which is how a lost message heals.
    """

    node_id: str
    boot_id: str
    sequence: int
    sampled_at: float
    desired_generation: int
    snapshot_generation: int
    replicas: list[ReplicaReport] = field(default_factory=list)
    accelerators: list[AcceleratorReport] = field(default_factory=list)
    gateway: GatewayReport | None = None

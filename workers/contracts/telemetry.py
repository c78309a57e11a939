"""What a node looks like now. None means unknown, which is never zero."""

from msgspec import Struct, field

from workers.contracts.decisions import RequestDecision


class ReplicaReport(Struct, frozen=True, kw_only=True):
    """`state` is a word of the lifecycle; `detail` says why in words.

    placed (it waits for its turn), fetching, starting, warming, ready, degraded, draining, sleeping, stopped, failed.
    `memory_bytes` is what it was measured to use, over its accelerators. `progress_ratio` is of what is fetched.
    `has_given_up`: it crashed too often, and is not started again until somebody asks. `is_prepared`: it
    is a part of an engine on several nodes, and would start if it might. `follows`: another part of it answers for it.
    """

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
    memory_bytes: int | None = None
    progress_ratio: float | None = None
    has_given_up: bool = False
    log_tail: list[str] = field(default_factory=list)
    is_prepared: bool = False
    follows: bool = False


class ForeignProcess(Struct, frozen=True, kw_only=True):
    """A process on a GPU that is not an engine of ours. `name` is "" where the node may not see it."""

    pid: int
    name: str = ""
    memory_bytes: int | None = None


class AcceleratorReport(Struct, frozen=True, kw_only=True):
    """`kind` is "gpu", "mig" (a slice, `profile` says of what size) or "cpu", which stands in where there is no GPU.

    `key` is what engines are told to use it by ("0", or a slice's UUID). GPUs of one `island` are joined by NVLink.
    `foreign_bytes` is what others than our engines use. `problem` says why it should get nothing. `nvlinks` are indexes
    of the GPUs that NVLink joins it to. Of its PCIe link the generation and lanes are what both ends can, not what a
    link that saves power shows.
    """

    index: int
    kind: str
    name: str
    key: str = ""
    profile: str = ""
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    foreign_bytes: int | None = None
    foreign_processes: list[ForeignProcess] = field(default_factory=list)
    utilisation_ratio: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    island: int | None = None
    numa: int | None = None
    driver_version: str = ""
    problem: str = ""
    nvlinks: list[int] = field(default_factory=list)
    pci_bus_id: str = ""
    pcie_generation: int | None = None
    pcie_width: int | None = None


# Stays free when weights are placed and when they are fetched, for logs and for what else is written.
DISK_MARGIN_BYTES = 1024**3


class DiskReport(Struct, frozen=True, kw_only=True):
    """The disk that weights are fetched to: what is free there, and the bytes of the weights on it, by their keys."""

    free_bytes: int | None = None
    weights: dict[str, int] = field(default_factory=dict)


class EndpointEstimate(Struct, frozen=True, kw_only=True):
    """What the gateway believes of an engine. Errors are shares of what was expected; None is unknown.

    `state` is serving, paused (it asked for that), suspended (after failures), probed, stalled, draining, or how warm
    it is. `cost_profile` is "" for an engine whose speed must be learned. `report_age_s` is of its own metrics.
    `cache_state` says how its KV events are followed, "" that there are none or that there is no choice: exact,
    connecting, partial (it had cached something before), silent, unreadable or distrusted. All but exact: the prefix
    index knows what we sent there and no more.
    `silent_s` is how long ago a token came or a counter of it grew, None while it has nothing to do.
    """

    endpoint_id: str
    version_id: str
    state: str
    running: int = 0
    silent_s: float | None = None
    cost_profile: str = ""
    prefill_tokens_per_s: float | None = None
    prefill_error: float | None = None
    step_ms: float | None = None
    step_error: float | None = None
    kv_used_ratio: float | None = None
    kv_capacity_tokens: int | None = None
    report_age_s: float | None = None
    cache_state: str = ""


class LengthEstimate(Struct, frozen=True, kw_only=True):
    """Of the answers to one tenant from one version; `error` is the mean distance of the logarithms."""

    tenant_id: str
    version_id: str
    tokens: float
    error: float
    answers: int


class PromptEstimate(Struct, frozen=True, kw_only=True):
    version_id: str
    bytes_per_token: float
    error: float
    requests: int


class TenantQueue(Struct, frozen=True, kw_only=True):
    tenant_id: str
    service_class: str
    queued: int = 0
    running: int = 0


class SchedulerReport(Struct, frozen=True, kw_only=True):
    """Bounded: the tenants with most in the gateway, the endpoints and the estimates used last."""

    tenants: list[TenantQueue] = field(default_factory=list)
    endpoints: list[EndpointEstimate] = field(default_factory=list)
    lengths: list[LengthEstimate] = field(default_factory=list)
    prompts: list[PromptEstimate] = field(default_factory=list)


class GatewayReport(Struct, frozen=True, kw_only=True):
    """Counters are totals since the gateway process `boot_id` started; rates are differences taken by the reader.

    `ttft_ms_p50` and `_p95` are over requests whose first token came in the last 60 s; None when there were none.
    """

    gateway_id: str
    boot_id: str
    active_generation: int
    snapshot_error: str = ""
    spool_error: str = ""
    limits_error: str = ""
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
    is_stopping: bool = False
    scheduler: SchedulerReport = SchedulerReport()


class NodeTelemetry(Struct, frozen=True, kw_only=True):
    """Sent once a second.

    `desired_generation` and `snapshot_generation` say what the agent holds: the control plane sends the newer one
    whenever they lag, which is how a lost message heals. `decisions` are of requests that have ended since the last
    frame, a bounded choice of them: those that failed or waited before the others.
    """

    node_id: str
    boot_id: str
    sequence: int
    sampled_at: float
    desired_generation: int
    snapshot_generation: int
    replicas: list[ReplicaReport] = field(default_factory=list)
    accelerators: list[AcceleratorReport] = field(default_factory=list)
    disk: DiskReport | None = None
    gateway: GatewayReport | None = None
    decisions: list[RequestDecision] = field(default_factory=list)

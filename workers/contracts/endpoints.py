"""Engines a gateway may send to, as the agent of the node offers them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct, field


class BatchShape(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How requests are gathered for an engine that does not batch by itself.

    A batch goes when it has `max_requests` or `max_tokens`, or `window_ms` after its first request came.
    """

    max_requests: Annotated[int, Meta(ge=1, le=2048)] = 32
    max_tokens: Annotated[int, Meta(ge=1)] = 16_384
    window_ms: Annotated[float, Meta(ge=0, le=10_000)] = 10.0


class KVEvents(Struct, frozen=True, kw_only=True):
    """Where an engine publishes what its KV cache stores and drops, as vLLM's ZMQ publisher does. ZeroMQ addresses.

    `publisher` sends each batch once, numbered from 0; `replay` sends the latest ones again from a number on.
    """

    publisher: str
    replay: str


class EngineShape(Struct, frozen=True, kw_only=True):
    """What is known of an engine before its first request; None is unknown, and so is a `cost_profile` of "".

    `cost_profile` names a row of workers/engines/data/step_costs.json, as "llama3-8b/h100/tp1"; `time_scale` is how
    many seconds pass for each of that row's. `has_priorities`: it orders what waits in it by the body's `priority`.
    `batching` is None for an engine that batches by itself, as nearly all do. Without `kv_events` it says nothing of
    its cache.
    """

    cost_profile: str = ""
    time_scale: float = 1.0
    max_batched_tokens: int | None = None
    max_sequences: int | None = None
    kv_capacity_tokens: int | None = None
    block_tokens: int | None = None
    has_priorities: bool = False
    batching: BatchShape | None = None
    kv_events: KVEvents | None = None


class Endpoint(Struct, frozen=True, kw_only=True):
    """A replica as the gateway sees it. `base_url` is `http://host:port`, without a path.

    `max_running_requests` is how many requests the gateway keeps in the engine at once. `engine` names the adapter
    ("vllm", "llamacpp", "fake"); `reports_continuous_usage` says that the engine understands
    `stream_options.continuous_usage_stats`, which makes the token count of a stream cut short exact.

    One that is not warm gets nothing yet; `ready_at` (Unix seconds) is when it may be, None unknown.
    """

    endpoint_id: str
    version_id: str
    base_url: str
    engine: str = "vllm"
    max_running_requests: int = 64
    reports_continuous_usage: bool = True
    is_draining: bool = False
    shape: EngineShape = EngineShape()
    warmth: Literal["warm", "loading", "asleep"] = "warm"
    ready_at: float | None = None

    @property
    def is_warm(self) -> bool:
        return self.warmth == "warm"


class EndpointList(Struct, frozen=True, kw_only=True):
    """Everything the agent offers now. `sequence` grows with each change of one agent process.

    `coming` are those that load or sleep, apart so that who knows nothing of warmth sends them nothing.
    """

    node_id: str
    sequence: int = 0
    endpoints: list[Endpoint] = field(default_factory=list)
    coming: list[Endpoint] = field(default_factory=list)

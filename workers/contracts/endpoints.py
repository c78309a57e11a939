"""Engines a gateway may send to, as the agent of the node offers them."""

from msgspec import Struct, field


class Endpoint(Struct, frozen=True, kw_only=True):
    """A replica as the gateway sees it. `base_url` is `http://host:port`, without a path.

    `max_running_requests` is how many requests the gateway keeps in the engine at once. `engine` names the adapter
    ("vllm", "llamacpp", "fake"); `reports_continuous_usage` says that the engine understands
    `stream_options.continuous_usage_stats`, which makes the token count of a stream cut short exact.
    """

    endpoint_id: str
    version_id: str
    base_url: str
    engine: str = "vllm"
    max_running_requests: int = 64
    reports_continuous_usage: bool = True
    is_draining: bool = False


class EndpointList(Struct, frozen=True, kw_only=True):
    """Everything the agent offers now. `sequence` grows with each change of one agent process."""

    node_id: str
    sequence: int = 0
    endpoints: list[Endpoint] = field(default_factory=list)

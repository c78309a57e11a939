"""How a gateway is set up."""

from pathlib import Path

from msgspec import Struct

from workers.contracts import layout
from workers.gateway.batches.api import Limits as BatchLimits
from workers.gateway.http.connections import MAX_CONNECTIONS, MAX_CONNECTIONS_PER_KEY
from workers.gateway.tracing.assembly import TracingConfig


class GatewayConfig(Struct, frozen=True, kw_only=True):
    """Times in seconds. `engine_silence_s`: how long an engine may send nothing for a request that it was sent.

    `engine_stall_s`: how long its own counters may stand still meanwhile. `batches` is where files and batches are
    kept; without it there are none. In `caches` it remembers what engines have cached. Without `tracing` no spans are
    made. `valkey_url` is where gateways share their limits; without it `limits_file` says so, once the control plane
    has; until then, and without either, this one keeps its own. `handover_grace_s`: how long streams may go on when a
    successor has taken over.
    """

    host: str
    port: int
    spool: Path
    gateway_id: str
    node_id: str
    report_file: Path | None = None
    valkey_url: str = ""
    limits_file: Path | None = None
    batches: Path | None = None
    caches: Path | None = None
    tracing: TracingConfig | None = None
    idle_s: float = 75.0
    request_s: float = 30.0
    stall_s: float = 60.0
    engine_silence_s: float = 300.0
    engine_stall_s: float = 15.0
    grace_s: float = 5.0
    handover_grace_s: float = 900.0
    max_file_bytes: int = BatchLimits().max_file_bytes
    max_connections: int = MAX_CONNECTIONS
    max_connections_per_key: int = MAX_CONNECTIONS_PER_KEY

    @property
    def prompts(self) -> Path | None:
        """Where an agent fetches them; a gateway alone has nobody to keep them for."""
        return self.report_file.with_name(layout.PROMPTS_DIRECTORY) if self.report_file is not None else None

    def is_node_removed(self) -> bool:
        """By the agent's mark, for a gateway that somebody else runs: what it knows of keys and models grows old."""
        return self.report_file is not None and self.report_file.with_name(layout.REMOVED_FILE).exists()

"""Desired state of one node: the agent makes it so, and keeps it so."""

from typing import Any

from msgspec import Struct, field

from workers.contracts.stores import StoreAddress


class ReplicaPart(Struct, frozen=True, kw_only=True):
    """One node's part of an engine that is on several. The part of rank 0 leads: it alone answers requests.

    `host` is this node's address; `master_host` and `master_port` are where the parts of this `run` meet, `stages`
    those of the whole engine. A part that has ended is not started again in the same run. `may_start`: all parts are
    prepared. `is_broken`: a part of the run before has ended, so that what is left of that run has nothing to finish.
    The last two are no part of the spec's hash.
    """

    rank: int
    count: int
    run: int
    host: str
    master_host: str
    master_port: int
    stages: int = 1
    may_start: bool = False
    is_broken: bool = False

    @property
    def leads(self) -> bool:
        return self.rank == 0


class ReplicaSpec(Struct, frozen=True, kw_only=True):
    """One engine process that should run. `spec_hash` changes when the process must be replaced.

    `engine` is "vllm", "llamacpp" or "fake"; `source` is what the adapter loads (a path, a repo, a model name known to
    the adapter); `engine_args` are the adapter's own options, validated by it. `port` is fixed by the control plane.
    `revision` is of a repository, `quantisation` what the engine shall do while loading. `lora_adapters` are sources by
    name, `lora_revisions` their commits or digests, `lora_stores` where the buckets of those in stores are.
    `accelerators` are keys of this node's (empty: the host), `memory_share` the part of each that it may use, None all.
    `reserved_bytes` is what must be free on each before it starts. A higher `incarnation` asks for a fresh process.
    `is_asleep`: it should sleep, or not be started where its engine cannot. `weights_bytes` is what must be on the
    node's disk; 0 is unknown. `store` is where the bucket of an s3:// source is, and `revision` the digest of what the
    version was made of. `part` is set where the engine is on several nodes.
    """

    replica_id: str
    deployment_id: str
    version_id: str
    engine: str
    source: str
    served_name: str
    port: int
    spec_hash: str
    task: str = "generate"
    max_context_tokens: int | None = None
    max_running_requests: int = 64
    engine_args: dict[str, Any] = field(default_factory=dict)
    is_draining: bool = False
    revision: str = ""
    dtype: str = ""
    quantisation: str = ""
    lora_adapters: dict[str, str] = field(default_factory=dict)
    lora_revisions: dict[str, str] = field(default_factory=dict)
    lora_stores: dict[str, StoreAddress] = field(default_factory=dict)
    accelerators: list[str] = field(default_factory=list)
    memory_share: float | None = None
    reserved_bytes: int = 0
    incarnation: int = 0
    is_asleep: bool = False
    weights_bytes: int = 0
    store: StoreAddress | None = None
    part: ReplicaPart | None = None

    @property
    def follows(self) -> bool:
        """It answers nobody: another node's part of the same engine does."""
        return self.part is not None and not self.part.leads


class DesiredState(Struct, frozen=True, kw_only=True):
    """`fence` is the fencing token of the controller that wrote it: a lower one than seen before is refused.

    `lease_s`: after so long without a word from the control plane, and without reaching any of `peers` (other nodes'
    gateways), the node is cut off, and must stop serving: others take over. None where there is nobody to take over.
    """

    node_id: str
    generation: int
    fence: int
    replicas: list[ReplicaSpec] = field(default_factory=list)
    lease_s: float | None = None
    peers: list[str] = field(default_factory=list)

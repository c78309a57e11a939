"""What the agent must know of an engine, whichever it is. One adapter per engine; registry.py lists them."""

from typing import Protocol

from msgspec import Struct, field

from workers.contracts.desired import ReplicaSpec
from workers.contracts.endpoints import EngineShape

MIB = 1024 * 1024
GIB = 1024 * MIB


class SpecRefusedError(ValueError):
    """The replica cannot be started as specified; the message says what to change."""


class EngineNotInstalledError(SpecRefusedError):
    """The engine's environment is missing; the message gives the command that makes it."""


class LaunchPlan(Struct, frozen=True, kw_only=True):
    """How to start one engine process, and what to expect of it.

    `max_running_requests` is what the engine really takes at once, never more than the spec asks for. Between SIGTERM
    and SIGKILL pass `stop_grace_s`. `memory_bytes` is a rough expectation, for people and placement. `shape` is what
    follows from the arguments. A step of it may take `stall_s`. `can_sleep`: it has vLLM's /sleep and /wake_up.
    """

    argv: list[str]
    env: dict[str, str] = field(default_factory=dict)
    max_running_requests: int
    start_timeout_s: float
    stop_grace_s: float
    memory_bytes: int
    shape: EngineShape = EngineShape()
    stall_s: float = 0.0
    can_sleep: bool = False


class WeightsSource(Struct, frozen=True, kw_only=True):
    """A repository of Hugging Face's hub; without a `revision` its main one."""

    repository: str
    revision: str = ""

    def __str__(self) -> str:
        return self.repository


class TrialRequest(Struct, frozen=True, kw_only=True):
    """A small real request: an engine is offered only after it has answered one. Sent as a POST of JSON."""

    path: str
    body: bytes


class EngineReading(Struct, frozen=True, kw_only=True):
    """What the engine says of itself. None means that it does not say."""

    running_requests: int | None = None
    waiting_requests: int | None = None
    kv_used_ratio: float | None = None
    prompt_tokens_total: int | None = None
    generated_tokens_total: int | None = None
    kv_capacity_tokens: int | None = None
    block_tokens: int | None = None
    steps_total: int | None = None


class EngineAdapter(Protocol):
    """Stateless. `plan` raises SpecRefusedError; nothing else raises on what an engine answers.

    `is_available` says whether this node can start such engines now.
    """

    name: str
    reports_continuous_usage: bool
    health_path: str
    metrics_path: str

    def is_available(self) -> bool: ...

    def plan(self, spec: ReplicaSpec) -> LaunchPlan: ...

    def weights(self, spec: ReplicaSpec) -> WeightsSource | None:
        """What must be on the disk before it starts; None when there is nothing to fetch."""

    def trial(self, spec: ReplicaSpec) -> TrialRequest: ...

    def has_passed(self, spec: ReplicaSpec, status: int, body: bytes) -> bool: ...

    def read_metrics(self, text: str) -> EngineReading: ...

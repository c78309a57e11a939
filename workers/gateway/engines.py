"""Engines as the gateway knows them: where they are, how fast they seem, and what the scheduler is told of that."""

from typing import TYPE_CHECKING

from msgspec import Struct, field, structs

from workers.contracts.endpoints import Endpoint
from workers.engines.costs import load_profiles
from workers.gateway.pace import Pace
from workers.gateway.upstream import EnginePool
from workers.scheduling.endpoint import DEFAULT_SPEC, EndpointSpec
from workers.scheduling.latency.step_cost import StepCost

if TYPE_CHECKING:
    from workers.engines.interface import EngineReading


class Engine(Struct, eq=False):
    """An endpoint with its connections, and what was learned of it.

    `tokens_per_s` is the pace of one request there; 0 is unknown. `fingerprint` is as StreamFilter has it. `reading` is
    what it said of itself last, at `read_at`. `is_stalled`: it has requests and makes no progress.
    """

    endpoint: Endpoint
    pool: EnginePool
    tokens_per_s: float = 0.0
    fingerprint: bytes | None = None
    pace: Pace = field(default_factory=Pace)
    reading: "EngineReading | None" = None
    read_at: float | None = None
    is_stalled: bool = False
    kv_capacity_tokens: int | None = None

    @property
    def is_draining(self) -> bool:
        return self.endpoint.is_draining or self.is_stalled

    @property
    def is_paced(self) -> bool:
        """Whether its speed is known: from its GPU's row, or learned with confidence."""
        return bool(self.profile) or self.pace.is_confident

    @property
    def profile(self) -> StepCost | None:
        return load_profiles().get(self.endpoint.shape.cost_profile)

    def learn_pace(self, output_tokens: int, seconds: float) -> None:
        if output_tokens > 0 and seconds > 0:
            pace = output_tokens / seconds
            self.tokens_per_s = pace if not self.tokens_per_s else 0.8 * self.tokens_per_s + 0.2 * pace

    def spec(self) -> EndpointSpec:
        """Of an engine of unknown speed, whose requests have no SLO until it is learned, the scheduler's own start."""
        shape = self.endpoint.shape
        kv_tokens = self.kv_capacity_tokens or shape.kv_capacity_tokens
        return EndpointSpec(
            cost=self._cost(kv_tokens),
            max_batched_tokens=shape.max_batched_tokens or DEFAULT_SPEC.max_batched_tokens,
            max_sequences=shape.max_sequences or self.endpoint.max_running_requests,
            is_speed_known=self.is_paced,
        )

    def _cost(self, kv_tokens: int | None) -> StepCost:
        profile = self.profile
        if profile is None and self.pace.is_confident:
            return self.pace.cost(kv_tokens)
        cost = profile.scaled(self.endpoint.shape.time_scale) if profile is not None else DEFAULT_SPEC.cost
        return structs.replace(cost, kv_capacity_tokens=kv_tokens or cost.kv_capacity_tokens)

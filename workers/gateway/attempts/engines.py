"""Engines as the gateway knows them: where they are, and what the scheduler is told of their speed."""

from typing import TYPE_CHECKING

from msgspec import structs

from workers.contracts.endpoints import BatchShape, Endpoint
from workers.engines.costs import load_profiles
from workers.gateway.http.engine_pool import EnginePool
from workers.scheduling.endpoint import DEFAULT_SPEC, EndpointSpec
from workers.scheduling.endpoint_spec import Batching
from workers.scheduling.latency.step_cost import StepCost

if TYPE_CHECKING:
    from workers.engines.interface import EngineReading


class Engine:
    """An endpoint with its connections, and what was learned of it.

    `tokens_per_s` is the pace of one request there; 0 is unknown. `fingerprint` is as StreamFilter has it. `reading` is
    what it said of itself last, `cache_state` how far its KV events are followed ("": not).
    """

    __slots__ = (
        "cache_state",
        "endpoint",
        "fingerprint",
        "kv_capacity_tokens",
        "pool",
        "reading",
        "tokens_per_s",
    )

    def __init__(self, endpoint: Endpoint, pool: EnginePool) -> None:
        self.endpoint = endpoint
        self.pool = pool
        self.tokens_per_s = 0.0
        self.fingerprint: bytes | None = None
        self.reading: EngineReading | None = None
        self.kv_capacity_tokens: int | None = None
        self.cache_state = ""

    @property
    def block_tokens(self) -> int | None:
        """Of its KV cache, where it has told."""
        told = self.reading.block_tokens if self.reading is not None else None
        return told or self.endpoint.shape.block_tokens

    @property
    def profile(self) -> StepCost | None:
        return load_profiles().get(self.endpoint.shape.cost_profile)

    def spec(self) -> EndpointSpec:
        """Without a row for its GPU the scheduler has to learn its speed, and holds nobody to a limit until then."""
        shape, profile = self.endpoint.shape, self.profile
        cost = profile.scaled(shape.time_scale) if profile is not None else DEFAULT_SPEC.cost
        kv_tokens = self.kv_capacity_tokens or shape.kv_capacity_tokens or cost.kv_capacity_tokens
        return EndpointSpec(
            cost=structs.replace(cost, kv_capacity_tokens=kv_tokens),
            max_batched_tokens=shape.max_batched_tokens or DEFAULT_SPEC.max_batched_tokens,
            max_sequences=shape.max_sequences or self.endpoint.max_running_requests,
            is_speed_known=profile is not None,
            batching=_batching_of(shape.batching) if shape.batching is not None else None,
        )


def _batching_of(shape: BatchShape) -> Batching:
    return Batching(max_requests=shape.max_requests, max_tokens=shape.max_tokens, window_s=shape.window_ms / 1000)

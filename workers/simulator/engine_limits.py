"""What an engine was started with."""

from msgspec import Struct

from workers.simulator.kv_cache import BLOCK_TOKENS


class EngineLimits(Struct, frozen=True, kw_only=True):
    """`is_by_priority`: what waits is taken by rank, then by arrival, as vLLM's priority scheduling does."""

    max_sequences: int = 256
    max_batched_tokens: int = 2048
    unit_tokens: int = BLOCK_TOKENS
    watermark: float = 0.01
    is_by_priority: bool = False

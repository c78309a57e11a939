"""One sequence in the engine: a request, or one of its `n` choices."""

from enum import Enum


class Phase(Enum):
    WAITING = "waiting"
    PREFILLING = "prefilling"
    DECODING = "decoding"
    DONE = "done"


class Sequence:
    """`output_tokens` is how many it will generate (0: an embedding); `block_hashes` names its full KV blocks.

    The hashes cover prompt and answer, as far as the caller knows them. Lower `priority` runs first. All but the first
    group of fields belong to the model.
    """

    __slots__ = (
        "admitted_at",
        "arrived_at",
        "block_hashes",
        "cached_tokens",
        "computed_tokens",
        "ended_at",
        "finish_step",
        "first_token_at",
        "generated_before",
        "joined_step",
        "order",
        "output_tokens",
        "phase",
        "preemptions",
        "prefill_tokens",
        "priority",
        "prompt_tokens",
        "scheduled_tokens",
        "shared_blocks",
    )

    def __init__(
        self, *, prompt_tokens: int, output_tokens: int, block_hashes: tuple[bytes, ...] = (), priority: int = 0
    ) -> None:
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.block_hashes = block_hashes
        self.priority = priority

        self.phase = Phase.WAITING
        self.order = 0
        self.arrived_at = 0.0
        self.admitted_at: float | None = None
        self.first_token_at: float | None = None
        self.ended_at = 0.0
        self.cached_tokens = 0
        self.preemptions = 0
        self.prefill_tokens = prompt_tokens
        self.computed_tokens = 0
        self.scheduled_tokens = 0
        self.generated_before = 0
        self.joined_step = 0
        self.finish_step = 0
        self.shared_blocks: list[bytes] = []

    def __repr__(self) -> str:
        return f"Sequence(#{self.order} {self.phase.value}, {self.prompt_tokens}→{self.output_tokens} tokens)"

"""How long one engine step takes."""

from msgspec import Struct, structs


class StepCost(Struct, frozen=True, kw_only=True):
    """Parameters of one model on one GPU, in milliseconds; fitted on measured kernels.

    `p` says how sharply a step turns from memory bound (reading the weights) to compute bound (its tokens).
    """

    t_fixed_ms: float
    ms_per_seq: float
    t_weight_ms: float
    ms_per_token: float
    p: float
    attn_fixed_ms: float
    ms_per_ctx_token: float
    ms_per_attn_pair: float
    kv_capacity_tokens: int

    def step_s(self, tokens: int, sequences: int, context_tokens: float, attention_pairs: float) -> float:
        """`tokens` of all sequences; `context_tokens` summed over decoding ones, `attention_pairs` over prefill chunks.

        A chunk of n tokens after m computed ones has n·(m + n/2) attention pairs.
        """
        attention = self.ms_per_ctx_token * context_tokens + self.ms_per_attn_pair * attention_pairs
        if context_tokens:
            attention += self.attn_fixed_ms
        return (self.t_fixed_ms + self.ms_per_seq * sequences + self.dense_ms(tokens) + attention) / 1000

    def dense_ms(self, tokens: int) -> float:
        """Everything but attention and what is fixed."""
        dense: float = (self.t_weight_ms**self.p + (self.ms_per_token * tokens) ** self.p) ** (1 / self.p)
        return dense

    def scaled(self, factor: float) -> "StepCost":
        """The same engine, `factor` times slower."""
        per_step = ("t_weight_ms", "t_fixed_ms", "attn_fixed_ms")
        per_unit = ("ms_per_token", "ms_per_seq", "ms_per_ctx_token", "ms_per_attn_pair")
        return structs.replace(self, **{name: getattr(self, name) * factor for name in per_step + per_unit})

"""How long one engine step takes, for a named model on a named GPU."""

from importlib.resources import files

import msgspec


class StepCost(msgspec.Struct, frozen=True):
    """Parameters of one model on one GPU, in milliseconds; data/step_costs.json says where they come from.

    `p` says how sharply a step turns from memory bound (reading the weights) to compute bound (its tokens).
    """

    p: float
    t_weight_ms: float
    ms_per_token: float
    t_fixed_ms: float
    ms_per_seq: float
    ms_per_ctx_token: float
    attn_fixed_ms: float
    ms_per_attn_pair: float
    kv_capacity_tokens: int

    def step_s(self, *, tokens: int, sequences: int, context_tokens: int, attention_pairs: float) -> float:
        """`context_tokens` is summed over decoding sequences, `attention_pairs` over prefill chunks."""
        dense: float = (self.t_weight_ms**self.p + (self.ms_per_token * tokens) ** self.p) ** (1 / self.p)
        attention = self.ms_per_ctx_token * context_tokens + self.ms_per_attn_pair * attention_pairs
        if context_tokens:
            attention += self.attn_fixed_ms
        return (self.t_fixed_ms + self.ms_per_seq * sequences + dense + attention) / 1000

    def scaled(self, factor: float) -> "StepCost":
        """The same engine, `factor` times slower."""
        per_step = ("t_weight_ms", "t_fixed_ms", "attn_fixed_ms")
        per_unit = ("ms_per_token", "ms_per_seq", "ms_per_ctx_token", "ms_per_attn_pair")
        return msgspec.structs.replace(self, **{name: getattr(self, name) * factor for name in per_step + per_unit})


class _CostFile(msgspec.Struct):
    profiles: dict[str, StepCost]


def load_profiles() -> dict[str, StepCost]:
    """By `model/gpu/tpN`."""
    content = files("workers.engines.fake").joinpath("data/step_costs.json").read_bytes()
    return msgspec.json.decode(content, type=_CostFile).profiles

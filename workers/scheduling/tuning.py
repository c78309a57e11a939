"""Every constant of the policy: one set for all traffic."""

from msgspec import Struct


class Tuning(Struct, frozen=True, kw_only=True):
    """What each is worth is measured in docs/scheduling.md.

    `gate_share`: an endpoint takes more while less than this share of a step's tokens waits in its prefill, so that
    order stays ours and steps stay full. `pace_margin`: the share of the tightest pace (TPOT) among the running that
    full steps may take.

    `kv_ceiling`: share of the KV cache that may be in use after a request; after one whose start can wait `patient_s`
    only `kv_ceiling_patient`, so that room stays for the urgent. `kv_headroom`: how many times its need a request must
    find free: large ones give way first when the cache fills up. `kv_reserve`: what stays free beside one that is worth
    just the bid price; beside one worth n times that, an n-th. `kv_hit_share`, `kv_length_share`: how much of a prefix
    that is cached, and in nobody's use, is free of charge, and of an answer to come is charged.

    `affinity`: how much a detour from the cheapest endpoint weighs, as a share of its extra cost.
    `hot_factor`: an endpoint that would run more than this many times the mean draws no request by its cache.
    `relief_s`: overload of the plan that is put up with, as estimates are no better. `fill`: share of the scarcer of
    steps and KV cache that may be promised. `late_factor`: late work runs on idle endpoints until it has waited this
    many times its limit.

    `is_fair`: shares of tenants are max-min by weight; otherwise value alone counts. `class_lead_s`: seconds of an
    endpoint, by weight, that a class may be served ahead of another that waits.
    """

    gate_share: float = 1.0
    pace_margin: float = 0.9
    kv_ceiling: float = 0.92
    kv_ceiling_patient: float = 0.4
    patient_s: float = 5.0
    kv_headroom: float = 2.0
    kv_reserve: float = 0.2
    kv_hit_share: float = 0.5
    kv_length_share: float = 0.5
    affinity: float = 0.5
    hot_factor: float = 1.25
    relief_s: float = 0.1
    fill: float = 0.9
    late_factor: float = 4.0
    is_fair: bool = True
    class_lead_s: float = 0.5


SOFT_TTFT_S = (2.0, 8.0, 32.0)
"""The order of requests without an SLO, by rank of their class: what has waited longer than that goes first."""
CLASS_WEIGHTS = (4.0, 2.0, 1.0)
"""Value of a request in time by rank of its class, and the class's guaranteed share against the others."""

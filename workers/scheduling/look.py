"""What was last found when an endpoint was looked at for a request."""

from math import inf

from workers.scheduling.decision import Verdict


class Look:
    """Written over with each look: many are taken for each request that is sent. `score` counts without a reason."""

    __slots__ = ("hit_tokens", "prefill_s", "reason", "score")

    def __init__(self) -> None:
        self.reason = ""
        self.score = inf
        self.prefill_s = 0.0
        self.hit_tokens = 0

    def fits(self, score: float, prefill_s: float, hit_tokens: int) -> None:
        self.reason = ""
        self.score, self.prefill_s, self.hit_tokens = score, prefill_s, hit_tokens

    def verdict(self, endpoint_id: str) -> Verdict:
        if self.reason:
            return endpoint_id, None, 0.0, 0, self.reason
        return endpoint_id, self.score, self.prefill_s, self.hit_tokens, ""

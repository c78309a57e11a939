"""How much of a tenant's prompts is usually cached by those before them."""

LEARNING_RATE = 0.02
MAX_TENANTS = 10_000


class Reuse:
    """Shares of prompt tokens, moving means over what was sent; who has sent nothing for the longest is forgotten.

    What a prompt newly computes is likely to be used again by as much: who sends conversations goes on with them.
    """

    __slots__ = ("_shares",)

    def __init__(self) -> None:
        self._shares: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._shares)

    def share_of(self, tenant_id: str) -> float:
        return self._shares.get(tenant_id, 0.0)

    def learn(self, tenant_id: str, hit_tokens: int, prompt_tokens: int) -> None:
        if not prompt_tokens:
            return
        share = self._shares.pop(tenant_id, 0.0)
        self._shares[tenant_id] = share + LEARNING_RATE * (hit_tokens / prompt_tokens - share)
        if len(self._shares) > MAX_TENANTS:
            del self._shares[next(iter(self._shares))]

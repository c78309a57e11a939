"""How much may be done twice: an outage must not be answered by twice the load."""

from collections import OrderedDict

MAX_KEYS = 10_000
LEAST_TOKENS = 256
"""What a retry counts at least: unknown prompts are not free."""


class RetryBudgets:
    """A balance of tokens per key: it starts full, gains a share of what is sent, and pays for what is sent again."""

    def __init__(self, share: float, most_tokens: float) -> None:
        self._share = share
        self._most_tokens = most_tokens
        self._balances: OrderedDict[str, float] = OrderedDict()

    def earn(self, key: str, tokens: float) -> None:
        balance = self._balances.get(key)
        if balance is None:
            return
        balance += self._share * max(LEAST_TOKENS, tokens)
        if balance >= self._most_tokens:
            del self._balances[key]
        else:
            self._balances[key] = balance

    def may_spend(self, key: str, tokens: float) -> bool:
        """One request larger than the whole budget may be tried again when the budget is full."""
        return self._balances.get(key, self._most_tokens) >= min(self._most_tokens, max(LEAST_TOKENS, tokens))

    def spend(self, key: str, tokens: float) -> None:
        """What is forgotten, as full ones are, is full again."""
        balance = self._balances.pop(key, self._most_tokens)
        self._balances[key] = balance - max(LEAST_TOKENS, tokens)
        if len(self._balances) > MAX_KEYS:
            self._balances.popitem(last=False)

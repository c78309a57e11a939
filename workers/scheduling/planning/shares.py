"""Who gets how much of what it asks for, when more than one thing is scarce."""

HALVINGS = 24
"""The level is found to one part in sixteen million."""
Asked = tuple[float, float]
"""Of the steps and of the KV cache, in shares of what there is of each."""


def dominant_shares(asked: dict[str, Asked], weights: dict[str, float]) -> dict[str, float]:
    """Of what each asks, the share that it gets: 1 is all.

    Each has as much, by weight, of that of which it asks most (dominant resource fairness), or all that it asks. Shared
    out one by one, who can be given little of the one would still be reckoned with all that it asks of the other.
    """
    if _fits(dict.fromkeys(asked, 1.0), asked):
        return dict.fromkeys(asked, 1.0)
    least, most = 0.0, max(_level_of_all(asked[name], weights[name]) for name in asked)
    for _ in range(HALVINGS):
        level = (least + most) / 2
        if _fits(_at(level, asked, weights), asked):
            least = level
        else:
            most = level
    return _at(least, asked, weights)


def _level_of_all(asks: Asked, weight: float) -> float:
    return max(asks) / weight


def _at(level: float, asked: dict[str, Asked], weights: dict[str, float]) -> dict[str, float]:
    return {name: min(1.0, level * weights[name] / max(asks)) if max(asks) else 1.0 for name, asks in asked.items()}


def _fits(shares: dict[str, float], asked: dict[str, Asked]) -> bool:
    steps = kv = 0.0
    for name, asks in asked.items():
        steps += shares[name] * asks[0]
        kv += shares[name] * asks[1]
    return max(steps, kv) <= 1.0

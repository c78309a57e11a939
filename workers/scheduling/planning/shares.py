"""Who gets how much of what it asks for, when more than one thing is scarce."""

from math import inf

Asked = tuple[float, float]
"""Of the steps and of the KV cache, in shares of what there is of each."""


def dominant_shares(asked: dict[str, Asked], weights: dict[str, float]) -> dict[str, float]:
    """Of what each asks, the share that it gets: 1 is all.

    Each has as much, by weight, of that of which it asks most (dominant resource fairness), or all that it asks. Shared
    out one by one, who can be given little of the one would still be reckoned with all that it asks of the other.
    """
    levels = {name: max(asks) / weights[name] for name, asks in asked.items()}
    level = _common_level(asked, levels)
    return {name: 1.0 if full <= level else level / full for name, full in levels.items()}


def _common_level(asked: dict[str, Asked], levels: dict[str, float]) -> float:
    """Up to which all may have of what they ask most, by weight; `levels` are those at which each has all.

    One after the other has all as the level rises, and takes no more from then on; between two of these what the others
    take of each thing grows with the level.
    """
    had_steps = had_kv = 0.0
    steps_per_level = sum(asks[0] / levels[name] for name, asks in asked.items() if levels[name])
    kv_per_level = sum(asks[1] / levels[name] for name, asks in asked.items() if levels[name])
    for name in sorted(levels, key=levels.__getitem__):
        level = levels[name]
        if had_steps + steps_per_level * level > 1.0 or had_kv + kv_per_level * level > 1.0:
            return min(_until_full(had_steps, steps_per_level), _until_full(had_kv, kv_per_level))
        if level:
            steps, kv = asked[name]
            had_steps, had_kv = had_steps + steps, had_kv + kv
            steps_per_level -= steps / level
            kv_per_level -= kv / level
    return inf


def _until_full(had: float, per_level: float) -> float:
    return max(0.0, 1.0 - had) / per_level if per_level > 0 else inf

"""What a change of a route's weights would do. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Share:
    """A target's weight and share of the route, and where its part of the bar begins; shares are 0 to 1."""

    weight: int
    share: float
    offset: float


def shares_of(weights: Sequence[int]) -> list[Share]:
    total, offset, shares = sum(weights), 0.0, []
    for weight in weights:
        share = weight / total if total else 0.0
        shares.append(Share(weight, share, offset))
        offset += share
    return shares


def changes_between(
    names: Mapping[Any, str], before: Mapping[Any, int], after: Mapping[Any, int]
) -> list[dict[str, str]]:
    """By version: its share now and afterwards, where the two differ."""
    now, then = _percentages(before, names), _percentages(after, names)
    return [{"label": names[key], "was": now[key], "becomes": then[key]} for key in names if now[key] != then[key]]


def changes_of_membership(
    names: Mapping[Any, str], before: Mapping[Any, int], after: Mapping[Any, int]
) -> list[dict[str, str]]:
    """Versions that join the route, and those that leave it."""
    return [
        {"label": name, "was": _is_in(key, before), "becomes": _is_in(key, after)}
        for key, name in names.items()
        if (key in before) != (key in after)
    ]


def changes_of_places(names: Mapping[Any, str], before: Sequence[Any], after: Sequence[Any]) -> list[dict[str, str]]:
    """By version: its place among those that stand in for others, now and afterwards, where the two differ."""
    return [
        {"label": f"{name} stands in", "was": _place(key, before), "becomes": _place(key, after)}
        for key, name in names.items()
        if _place(key, before) != _place(key, after)
    ]


def _is_in(key: Any, weights: Mapping[Any, int]) -> str:
    return "on the route" if key in weights else "not on it"


def _place(key: Any, order: Sequence[Any]) -> str:
    return f"as number {order.index(key) + 1}" if key in order else "never"


def _percentages(weights: Mapping[Any, int], names: Mapping[Any, str]) -> dict[Any, str]:
    total = sum(weights.values())
    return {key: f"{100 * weights.get(key, 0) / total:.4g} %" if total else "–" for key in names}

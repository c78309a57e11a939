"""Where deployed routers send a request."""

from collections.abc import Callable
from random import Random

from msgspec import Struct

from workers.scheduling.interface import Request
from workers.scheduling.peers.router import Target

Hits = Callable[[Target], int]
BLOCK_TOKENS = 16


class RoundRobin:
    knows_prefixes = reads_reports = False

    def __init__(self) -> None:
        self._turn = 0

    def pick(self, request: Request, targets: list[Target], hits: Hits) -> Target:
        del request, hits
        self._turn += 1
        return targets[self._turn % len(targets)]


class RandomChoice:
    knows_prefixes = reads_reports = False

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def pick(self, request: Request, targets: list[Target], hits: Hits) -> Target:
        del request, hits
        return self._rng.choice(targets)


class LeastOutstanding:
    knows_prefixes = reads_reports = False

    def pick(self, request: Request, targets: list[Target], hits: Hits) -> Target:
        del request, hits
        return min(targets, key=_outstanding)


class PowerOfTwo:
    knows_prefixes = reads_reports = False

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def pick(self, request: Request, targets: list[Target], hits: Hits) -> Target:
        del request, hits
        return min(self._rng.choice(targets), self._rng.choice(targets), key=_outstanding)


class CacheAwareConfig(Struct, frozen=True, kw_only=True):
    """Defaults of sglang-router."""

    min_match: float = 0.3
    max_imbalance: int = 64
    max_imbalance_ratio: float = 1.5


class CacheAware:
    """sglang-router: the longest match if it is long enough, the least loaded when the fleet is out of balance."""

    knows_prefixes, reads_reports = True, False

    def __init__(self, config: CacheAwareConfig) -> None:
        self._config = config

    def pick(self, request: Request, targets: list[Target], hits: Hits) -> Target:
        loads = [target.outstanding for target in targets]
        low, high = min(loads), max(loads)
        is_imbalanced = high - low > self._config.max_imbalance and high > low * self._config.max_imbalance_ratio
        if not is_imbalanced:
            best = max(targets, key=hits)
            if request.prompt_tokens and hits(best) / request.prompt_tokens > self._config.min_match:
                return best
        return min(targets, key=_outstanding)


class PrefixAware:
    """production-stack: the longest match, whatever the load; round robin without one."""

    knows_prefixes, reads_reports = True, False

    def __init__(self) -> None:
        self._fallback = RoundRobin()

    def pick(self, request: Request, targets: list[Target], hits: Hits) -> Target:
        best = max(targets, key=hits)
        return best if hits(best) else self._fallback.pick(request, targets, hits)


class WeightedScoresConfig(Struct, frozen=True, kw_only=True):
    """Defaults of llm-d's endpoint picker."""

    queue: float = 2.0
    kv_use: float = 2.0
    prefix: float = 3.0


class WeightedScores:
    """llm-d: the greatest weighted sum of scores from the engines' reports and the prefix match."""

    knows_prefixes = reads_reports = True

    def __init__(self, config: WeightedScoresConfig) -> None:
        self._config = config

    def pick(self, request: Request, targets: list[Target], hits: Hits) -> Target:
        waiting = [target.report.waiting or 0 for target in targets]
        low, high = min(waiting), max(waiting)

        def score(target: Target) -> tuple[float, int]:
            queue = (high - (target.report.waiting or 0)) / (high - low) if high > low else 1.0
            prefix = hits(target) / request.prompt_tokens if request.prompt_tokens else 0.0
            config = self._config
            total = (
                config.queue * queue + config.kv_use * (1 - (target.report.kv_usage or 0.0)) + config.prefix * prefix
            )
            return total, -target.outstanding

        return max(targets, key=score)


class KVCost:
    """Dynamo: the least sum of prefill blocks, counted with an overlap weight of 1, and blocks in use."""

    knows_prefixes, reads_reports = True, False

    def pick(self, request: Request, targets: list[Target], hits: Hits) -> Target:
        def cost(target: Target) -> float:
            prefill = target.prefill_tokens + request.prompt_tokens - hits(target)
            return (prefill + target.kv_tokens + request.prompt_tokens) / BLOCK_TOKENS

        return min(targets, key=cost)


def _outstanding(target: Target) -> int:
    return target.outstanding

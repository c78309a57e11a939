"""What metrics read of limits."""

from collections import Counter

from workers.contracts.limits import LimitRule


class LimitFigures:
    """Counts by (kind, scope), both few."""

    def __init__(self) -> None:
        self.refusals: Counter[tuple[str, str]] = Counter()
        self.warnings: Counter[tuple[str, str]] = Counter()
        self.degraded_admissions = 0
        self.failed_exchanges = 0
        self.exchanges = 0
        self.waiting = 0
        self.is_degraded = False
        self.error = ""

    def refused(self, rule: LimitRule) -> None:
        self.refusals[rule.kind, rule.scope] += 1

    def warned(self, rule: LimitRule) -> None:
        self.warnings[rule.kind, rule.scope] += 1

    def lines(self) -> list[str]:
        """Prometheus text."""
        lines = [
            *_labelled("limit_refusals_total", "Requests refused by a limit.", self.refusals),
            *_labelled("limit_warnings_total", "Requests admitted past a soft limit.", self.warnings),
        ]
        lines += _plain("limits_degraded", "gauge", "1 while nobody can say how much is left.", int(self.is_degraded))
        about = "Requests admitted on this gateway's own share while nobody could say how much was left."
        lines += _plain("limits_degraded_admissions_total", "counter", about, self.degraded_admissions)
        lines += _plain("limits_exchanges_total", "counter", "Messages to the authority.", self.exchanges)
        lines += _plain("limits_failed_exchanges_total", "counter", "Those without an answer.", self.failed_exchanges)
        return lines + _plain("limits_waiting_requests", "gauge", "Requests that wait for a share.", self.waiting)


def _labelled(name: str, about: str, counts: Counter[tuple[str, str]]) -> list[str]:
    full = f"tokenyard_gateway_{name}"
    samples = [f'{full}{{kind="{kind}",scope="{scope}"}} {count}\n' for (kind, scope), count in list(counts.items())]
    return [f"# HELP {full} {about}\n# TYPE {full} counter\n", *samples]


def _plain(name: str, kind: str, about: str, value: int) -> list[str]:
    full = f"tokenyard_gateway_{name}"
    return [f"# HELP {full} {about}\n# TYPE {full} {kind}\n{full} {value}\n"]

"""What metrics read of KV events."""

from collections import Counter

STATES = ("connecting", "exact", "partial", "silent", "unreadable", "distrusted")


class KVEventFigures:
    """`endpoints` counts those that are followed by their state, `fallbacks` why an exact one became approximate."""

    def __init__(self) -> None:
        self.endpoints: Counter[str] = Counter()
        self.fallbacks: Counter[str] = Counter()
        self.prompts: Counter[str] = Counter(learned=0, dropped=0, failed=0)
        self.batches = 0
        self.gaps = 0
        self.restarts = 0

    def lines(self) -> list[str]:
        """Prometheus text; nothing while no engine is followed."""
        if not self.endpoints:
            return []
        counted = {state: self.endpoints[state] for state in STATES}
        lines = _labelled("endpoints", "gauge", "Engines that publish KV events, by state.", "state", counted)
        about = "Times that an exact prefix index became an approximate one."
        lines += _labelled("fallbacks_total", "counter", about, "reason", self.fallbacks)
        about = "Prompts whose tokens were asked for, by what came of it."
        lines += _labelled("prompts_total", "counter", about, "outcome", self.prompts)
        lines += _plain("batches_total", "Batches of events that were read.", self.batches)
        lines += _plain("gaps_total", "Times that batches were missing and the engine had not kept them.", self.gaps)
        return lines + _plain("restarts_total", "Times that the numbers of an engine began again.", self.restarts)


def _labelled(name: str, kind: str, about: str, label: str, counts: dict[str, int]) -> list[str]:
    full = f"tokenyard_gateway_kv_event_{name}"
    samples = [f'{full}{{{label}="{value}"}} {count}\n' for value, count in list(counts.items())]
    return [f"# HELP {full} {about}\n# TYPE {full} {kind}\n", *samples]


def _plain(name: str, about: str, value: int) -> list[str]:
    full = f"tokenyard_gateway_kv_event_{name}"
    return [f"# HELP {full} {about}\n# TYPE {full} counter\n{full} {value}\n"]

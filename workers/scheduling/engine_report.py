"""What an engine says of itself, as a scheduler is told of it."""


class EngineReport:
    """What an engine said of itself at `taken_at`, None where it does not tell. `kv_usage` is a share of its capacity.

    `steps_total` and `tokens_total` are counters that grow with every step while the engine works, such as vLLM's
    iteration_tokens_total_count and the sum of its token counters; None where it has none. They tell an engine that
    is busy from one that hangs.
    """

    __slots__ = ("kv_usage", "running", "steps_total", "taken_at", "tokens_total", "waiting")

    def __init__(
        self,
        *,
        taken_at: float,
        running: int | None,
        waiting: int | None,
        kv_usage: float | None,
        steps_total: float | None = None,
        tokens_total: float | None = None,
    ) -> None:
        self.taken_at = taken_at
        self.running = running
        self.waiting = waiting
        self.kv_usage = kv_usage
        self.steps_total = steps_total
        self.tokens_total = tokens_total

    def not_after(self, now: float) -> "EngineReport":
        """The same; what it will say is taken as said now."""
        if self.taken_at <= now:
            return self
        return EngineReport(
            taken_at=now, running=self.running, waiting=self.waiting, kv_usage=self.kv_usage,
            steps_total=self.steps_total, tokens_total=self.tokens_total,
        )  # fmt: skip

"""Prompts that an engine can take into one step together tell of its speed together."""

from collections.abc import Iterable
from math import inf

from workers.scheduling.latency.speed import Speed
from workers.scheduling.latency.step_cost import StepCost
from workers.scheduling.ticket import Ticket

SAME_STEP = 0.25
"""Of what is expected: first tokens that come closer to each other than this are of one step."""


class JointStep:
    """What was sent since the last first token: it is taken to begin together, and its first one says when it ended.

    Those that come right after it were in the same step, or waited for that: they say nothing more of the speed. Where
    what was sent before it has answered meanwhile, the step began no earlier than that.
    """

    __slots__ = ("_began_at", "_heard_at", "_prompts", "_tokens")

    def __init__(self) -> None:
        self._began_at = self._heard_at = -inf
        self._prompts = 0
        self._tokens = 0

    def sent(self, new_tokens: int, now: float) -> None:
        if not self._prompts:
            self._began_at = now
        self._prompts += 1
        self._tokens += new_tokens

    def ended(self) -> None:
        self._prompts = self._tokens = 0

    def heard(self, now: float) -> None:
        """The first token of what fills a step alone."""
        self._heard_at = now

    def teach(self, speed: Speed, cost: StepCost, max_tokens: int, sent_at: float, now: float) -> None:
        """The first token of what was sent at `sent_at` has come, of one that fills no step alone.

        Once the speed is learned a step tells only where it takes as long as a full one of the formula: what is
        shorter says more of the pause between two.
        """
        began_at, heard_at, self._heard_at = self._began_at, self._heard_at, now
        if not self._prompts or sent_at < began_at:
            return
        observed_s = now - max(began_at, heard_at)
        expected_s = speed.factor * cost.step_s(min(self._tokens, max_tokens), self._prompts, 0.0, 0.0)
        is_long = expected_s >= cost.step_s(max_tokens, 1, 0.0, 0.0) and self._tokens <= max_tokens
        is_same_step = heard_at > began_at and observed_s < SAME_STEP * expected_s
        self.ended()
        if observed_s > 0 and not is_same_step and (is_long or not speed.is_learned):
            speed.learn(observed_s / expected_s)


def fit_one_step(tickets: Iterable[Ticket], max_tokens: int) -> bool:
    new_tokens = 0
    for ticket in tickets:
        new_tokens += ticket.prompt_tokens - ticket.hit_tokens
    return new_tokens <= max_tokens

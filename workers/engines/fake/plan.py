"""The whole answer of one choice. It is known when the request arrives, since it follows from the request."""

import random
from collections.abc import Sequence

from msgspec import Struct

from workers.engines.fake.words import write_words


class AnswerPlan(Struct, frozen=True, kw_only=True):
    """`tokens` are all that the engine generates; `pieces` is the text each adds, shortened where a stop string is."""

    tokens: list[str]
    pieces: list[str]
    finish_reason: str
    stop_reason: str | None

    def text(self, start: int = 0, end: int | None = None) -> str:
        return "".join(self.pieces[start:end])


def plan_answer(
    source: random.Random,
    context: Sequence[str],
    *,
    limit_tokens: int,
    mean_tokens: int,
    min_tokens: int = 0,
    ignores_eos: bool = False,
    stops: tuple[str, ...] = (),
    keeps_stop: bool = False,
    opening: str = "",
    begun_tokens: int = 0,
) -> AnswerPlan:
    """An answer ends by itself after half to one and a half times `mean_tokens`, unless it ignores that.

    `begun_tokens` of that stand at the end of `context` already.
    """
    natural = max(source.randint(mean_tokens // 2, mean_tokens * 3 // 2) - begun_tokens, min_tokens, 1)
    length = limit_tokens if ignores_eos else min(natural, limit_tokens)
    tokens = write_words(context, length, opening)
    ended = "length" if length == limit_tokens else "stop"
    plan = AnswerPlan(tokens=tokens, pieces=tokens, finish_reason=ended, stop_reason=None)
    return _cut(plan, stops, keeps_stop=keeps_stop)


def _cut(plan: AnswerPlan, stops: tuple[str, ...], *, keeps_stop: bool) -> AnswerPlan:
    """As vLLM does: the earliest stop string ends the answer at the token that completes it."""
    text = plan.text()
    found = [(text.find(stop) + len(stop), stop) for stop in stops if stop in text]
    if not found:
        return plan
    stop_end, stop = min(found)
    text_end = stop_end if keeps_stop else stop_end - len(stop)
    tokens: list[str] = []
    pieces: list[str] = []
    position = 0
    for token in plan.tokens:
        if position >= stop_end:
            break
        tokens.append(token)
        pieces.append(token[: max(0, text_end - position)])
        position += len(token)
    return AnswerPlan(tokens=tokens, pieces=pieces, finish_reason="stop", stop_reason=stop)

"""What is known of a batch that runs, beside what is on disk: it may be lost at any moment."""

from collections import Counter, deque
from typing import Literal

import msgspec
from msgspec import Struct, field

from workers.contracts.recording import unpaid
from workers.contracts.usage import UsageRecord
from workers.gateway.batches.errands import Calling, Reply
from workers.gateway.batches.loopback import LoopbackAnswer
from workers.gateway.batches.shapes import Batch, Item, Status

MAX_TRIES = 3
PAUSE_S = 1.0
MAX_PAUSE_S = 30.0
Verdict = Literal[
    "keep",  # this is the item's answer
    "again",  # an engine failed: another try
    "later",  # we refused it, and will not for ever
]


Step = Literal["validate", "load", "finalize", "finish", "close"]
_STEPS: dict[str, Step] = {"validating": "validate", "finalizing": "finish", "cancelling": "close"}


class Progress(Struct, eq=False):
    """`ready` are items to be asked for next, `last_loaded` the number up to which they were read from disk.

    `tries` are of items that an engine failed, `wasted` the records of their last tries, with the tokens of all.
    `ending` is where it goes before all is answered.
    """

    batch: Batch
    ready: deque[Item] = field(default_factory=deque)
    last_loaded: int = -1
    calls: dict[int, Calling] = field(default_factory=dict)
    paused_until: float = 0.0
    tries: Counter[int] = field(default_factory=Counter)
    wasted: dict[int, UsageRecord] = field(default_factory=dict)
    ending: Status | None = None

    def step(self, now: float) -> Step:
        """What the batch as a whole needs next; `now` in Unix seconds."""
        batch = self.batch
        if batch.status != "in_progress":
            return _STEPS[batch.status]
        if now >= batch.expires_at and (self.ending is not None or not batch.has_all_answers):
            return "close"
        return "finalize" if batch.has_all_answers else "load"

    def is_due(self, now: float) -> bool:
        return bool(self.ready) and now >= self.paused_until and self.batch.status == "in_progress"

    def judge(self, item: Item, reply: Reply, now: float) -> Verdict:
        verdict = verdict_on(reply, self.tries[item.number] + 1)
        if verdict == "keep":
            self.tries.pop(item.number, None)
            return verdict
        self.ready.appendleft(item)
        self.paused_until = max(self.paused_until, now + pause_s(reply))
        if verdict == "again" and reply.record is not None:
            self.tries[item.number] += 1
        if reply.record is not None:
            self._note_waste(item, reply.record)
        return verdict

    def _note_waste(self, item: Item, record: UsageRecord) -> None:
        earlier = self.wasted.get(item.number)
        wasted_tokens = record.output_tokens + record.wasted_tokens + (earlier.wasted_tokens if earlier else 0)
        if wasted_tokens:
            self.wasted[item.number] = msgspec.structs.replace(record, output_tokens=0, wasted_tokens=wasted_tokens)

    def waste_of(self, item: Item, error_code: str) -> UsageRecord | None:
        """The record of an item that is not tried again: nobody pays for what its tries threw away."""
        wasted = self.wasted.pop(item.number, None)
        return None if wasted is None else unpaid(wasted, error_code)

    def give_up(self, error_code: str) -> list[tuple[Item, UsageRecord]]:
        """What is not asked for any more; of that, what has used something."""
        found = [(item, self.waste_of(item, error_code)) for item in self.ready]
        self.ready.clear()
        return [(item, record) for item, record in found if record is not None]

    def due_record(self, item: Item, reply: Reply) -> UsageRecord | None:
        """With what earlier tries threw away. What the end of the batch's time cut off costs nothing, as at OpenAI."""
        record = reply.record
        if record is None:
            return self.waste_of(item, "internal_error") if reply.answer is not None else None
        if reply.answer is None and self.ending == "expired" and record.usage_source != "none":
            record = unpaid(record, "batch_expired")
        earlier = self.wasted.pop(item.number, None)
        if earlier is None:
            return record
        return msgspec.structs.replace(record, wasted_tokens=record.wasted_tokens + earlier.wasted_tokens)


def verdict_on(reply: Reply, tries: int) -> Verdict:
    record = reply.record
    if reply.answer is None:
        return "keep"
    if record is None:
        return "later" if reply.answer.status == 503 else "keep"  # noqa: PLR2004 - HTTP
    if _is_for_ever(record.error_code, reply.answer):
        return "keep"
    if record.outcome == "refused" or record.error_code == "shutting_down":
        return "later"
    return "again" if record.outcome == "failed" and tries < MAX_TRIES else "keep"


def _is_for_ever(error_code: str, answer: LoopbackAnswer) -> bool:
    """No waiting changes it: the request alone is more than a limit, or the money never comes back."""
    is_last_money = error_code == "budget_exhausted" and b"retry-after" not in answer.headers
    return error_code == "larger_than_limit" or is_last_money


def pause_s(reply: Reply) -> float:
    """As long as the refusal asks for, within reason."""
    asked = reply.answer.headers.get(b"retry-after", b"") if reply.answer is not None else b""
    return min(max(float(asked), PAUSE_S), MAX_PAUSE_S) if asked.isdigit() else PAUSE_S

"""One limit of one subject, as this gateway holds it: its lease, and what has become of it."""

from collections import deque
from math import ceil

from workers.contracts.limits import MINUTE_KINDS, MONEY_KINDS, PICO_PER_NANO, SPANS, LimitRule, Period
from workers.gateway.limits.authority import WINDOW_MS, Answer, Ask, Shape

IDLE_AFTER_S = 0.1
UNKNOWN_AFTER_S = 4.0
_WINDOW_S = WINDOW_MS / 1000
_KEEP_MINUTE_MS = 3_600_000
_KEEP_PERIOD_MS = 40 * 86_400_000
_KEEP_FOREVER_MS = 4_000_000_000_000
# No request will ever use so much, but it may ask for more; messages have 64 bits, and so has the time until it fits.
_MOST_WANTED = 2**46


class Account:
    """`free` is what the lease has left for requests to come.

    reserve ──▶ settle   once each; `settle` with what was really used, which may be more than was reserved
    renounce             gives back what is free
    """

    __slots__ = (
        "_carried_pico",
        "_committed_when_asked",
        "_is_placed",
        "_recent",
        "_told_committed",
        "_unknown_since",
        "account_id",
        "granted",
        "head",
        "is_dirty",
        "is_near",
        "lacks",
        "last_used_at",
        "marker",
        "period",
        "reached_at",
        "reserved",
        "returned",
        "rule",
        "spent",
        "subject",
        "told",
        "told_at",
        "waiting",
    )

    def __init__(self, account_id: str, rule: LimitRule, period: Period, *, marker: str, subject: str) -> None:
        self.account_id = account_id
        self.rule = rule
        self.period = period
        self.marker = marker
        self.subject = subject
        self.granted = self.spent = self.returned = self.reserved = 0
        self.told: Answer | None = None
        self.told_at = float("-inf")
        self.waiting = self.head = self.lacks = 0
        self.is_dirty = False
        self.is_near = False
        self.last_used_at = self.reached_at = float("-inf")
        self._carried_pico = 0
        self._is_placed = False
        self._committed_when_asked = 0
        self._recent: deque[list[float]] = deque()
        self._told_committed = 0
        self._unknown_since: float | None = None

    @property
    def free(self) -> int:
        return self.granted - self.spent - self.returned - self.reserved

    @property
    def remaining(self) -> int:
        """Of the limit as it was told last, less what was taken here since."""
        return self.told.remaining - self._taken_since_told if self.told is not None else self.rule.amount

    @property
    def has_news(self) -> bool:
        return self.is_dirty or self.waiting > 0 or self.free > 0

    @property
    def _taken_since_told(self) -> int:
        return self.spent + self.reserved - self._told_committed

    # -- requests

    def reserve(self, amount: int, now: float) -> None:
        self.last_used_at = now
        self.is_dirty = True
        if self.rule.kind == "requests_per_minute":
            self._spend(amount, now)
        else:
            self.reserved += amount

    def cover(self, amount: int) -> None:
        """Makes room for it without a lease, which the authority learns of all the same."""
        self.granted += max(amount - self.free, 0)

    def settle(self, reserved: int, tokens: int, cost_pico_usd: int, now: float) -> None:
        """The account of requests has nothing to settle: they count as soon as they are admitted."""
        kind = self.rule.kind
        if kind == "requests_per_minute":
            return
        self.last_used_at = now
        self.is_dirty = True
        self.reserved -= reserved
        if kind in MONEY_KINDS:
            total_pico = self._carried_pico + cost_pico_usd
            self._carried_pico = total_pico % PICO_PER_NANO
            self._spend(total_pico // PICO_PER_NANO, now)
        elif kind != "concurrent_requests":
            self._spend(tokens, now)

    def _spend(self, amount: int, now: float) -> None:
        self.spent += amount
        self.granted += max(-self.free, 0)
        if amount and self.rule.kind in MINUTE_KINDS:
            if self._recent and now - self._recent[-1][0] < 1:
                self._recent[-1][1] += amount
            else:
                self._recent.append([now, amount])

    def renounce(self) -> None:
        if self.free > 0:
            self.returned += self.free
            self.is_dirty = True

    def is_unknown(self, now: float) -> bool:
        """Its use has not been counted for longer than a start of Valkey or of a limit takes."""
        return self._unknown_since is not None and now - self._unknown_since >= UNKNOWN_AFTER_S

    def share(self, holders: int, rank: int, now: float) -> int:
        """What the one of that rank among `holders` that cannot ask may admit: their parts are never more than all.

        Its part of what was left when it was told, as others may have the rest. Of a minute its part of the whole once
        nothing counts any more of what others had used by then.
        """
        told, rule = self.told, self.rule
        whole = part_of(told.limit if told is not None else rule.burst or rule.amount, holders, rank)
        if rule.kind in MINUTE_KINDS and now - self.told_at >= _WINDOW_S + 1:  # or it never was told
            back_per_s = part_of(rule.amount, holders, rank) / _WINDOW_S if rule.burst is not None else 0.0
            return whole - self.reserved - self._count_recent(now, back_per_s)
        if told is None:
            return whole - self.spent - self.reserved
        return part_of(max(told.remaining, 0), holders, rank) - self._taken_since_told

    # -- the authority

    def ask(self, sequence: int, now: float) -> Ask:
        """What to say now. The answer goes to `answered` together with it; without one it is said again."""
        rule = self.rule
        asked = Ask(
            account=self.account_id,
            shape=shape_of(rule),
            marker=self.marker if rule.is_counted_by_control_plane and rule.kind in SPANS else "",
            keep_ms=self._keep_ms(),
            revision=rule.revision,
            amount=rule.amount,
            burst=rule.burst or 0,
            raised_amount=rule.raised_amount or 0,
            raised_until_ms=int((rule.raised_until or 0) * 1000),
            sequence=sequence,
            is_placed=self._is_placed,
            granted=self.granted,
            spent=self.spent,
            returned=self.returned,
            reserved=self.reserved,
            recent=self._count_recent(now),
            head=min(self.head, _MOST_WANTED),
            need=min(max(self.lacks - self.free, 0), _MOST_WANTED),
            extra=self._welcome(),
        )
        self.is_dirty = False
        self._committed_when_asked = self.spent + self.reserved
        return asked

    def answered(self, ask: Ask, answer: Answer, sent_at: float) -> None:
        if self._is_placed:
            self.granted += max(answer.granted - ask.granted, 0)
            self._told_committed = ask.spent + ask.reserved
            self._adopt_counted(answer.spent)
        else:
            self._place(answer)
        self.told = answer
        self.told_at = sent_at
        if answer.state == "ready":
            self._unknown_since = None
        else:  # is asked again, until somebody knows
            self.is_dirty = True
            self._unknown_since = sent_at if self._unknown_since is None else self._unknown_since
        if answer.is_recalled and not (self.waiting and self.free >= self.head):
            self.renounce()

    def _place(self, answer: Answer) -> None:
        """What this process had spent before it forgot the account, and what was taken here before it was asked."""
        self._is_placed = True
        self.is_dirty = self.is_dirty or self.spent + self.reserved > 0
        self._told_committed = answer.spent
        self._committed_when_asked += answer.spent
        self.granted += answer.granted
        self.spent += answer.spent
        self.returned += answer.returned

    def _adopt_counted(self, counted: int) -> None:
        """What was used before there was the limit may be recorded only after this process has been placed."""
        if self.rule.kind in SPANS and counted > self.spent:
            self._told_committed += counted - self.spent
            self.spent = counted
            self.granted += max(-self.free, 0)
            self.is_dirty = True

    def give_back_if_idle(self, now: float) -> None:
        if not self.waiting and now - self.last_used_at >= IDLE_AFTER_S:
            self.renounce()

    def _welcome(self) -> int:
        """Twice what went since the last message, so that a steady stream of requests never waits."""
        if self.rule.kind == "concurrent_requests":
            return 0
        gone = self.spent + self.reserved - self._committed_when_asked
        return max(2 * gone - max(self.free, 0), 0)

    def _count_recent(self, now: float, back_per_s: float = 0.0) -> int:
        """What was spent in the last minute, less what has come back evenly since, as into a bucket."""
        while self._recent and now - self._recent[0][0] >= _WINDOW_S + 1:
            self._recent.popleft()
        count, counted_at = 0.0, now
        for spent_at, amount in self._recent:
            count = max(count - back_per_s * max(spent_at - counted_at, 0.0), 0.0) + amount
            counted_at = spent_at
        return ceil(max(count - back_per_s * (now - counted_at), 0.0))

    def _keep_ms(self) -> int:
        if self.rule.kind not in SPANS:
            return _KEEP_MINUTE_MS
        length_s = self.period.end - self.period.start
        return _KEEP_FOREVER_MS if length_s == float("inf") else int(length_s * 1000) + _KEEP_PERIOD_MS


def part_of(amount: int, holders: int, rank: int) -> int:
    """The parts of all ranks add up to the amount."""
    return amount // holders + (rank < amount % holders)


def shape_of(rule: LimitRule) -> Shape:
    if rule.kind == "concurrent_requests":
        return "slots"
    if rule.kind in SPANS:
        return "period"
    return "window" if rule.burst is None else "bucket"

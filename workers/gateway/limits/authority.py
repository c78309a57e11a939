"""What a gateway and the authority tell each other about an account, and an authority in this process.

Everything a holder says of itself is a total since it began (`granted`, `spent`, `returned`) or a level under a growing
`sequence` (`reserved`), so that a message that is lost, doubled or late does no harm: the next one says it all again.

    granted - spent - returned     the holder's lease, of which `reserved` is promised to requests that run
    limit - used - every lease     what may be granted still
    limit - used - every reserved  `remaining`: what is not used, wherever it is leased. Only this refuses a request.

A holder that is silent for `ttl_ms` is dead: its places are free at once, and the rest of its lease, of which nobody
knows whether it was spent, a window later.

authority.lua is the same in Valkey; tests hold the two against each other.
"""

from collections import deque
from typing import Literal

from msgspec import Struct, field

WINDOW_MS = 60_000
STEP_MS = 100
RECALL_MS = 250

Shape = Literal["slots", "window", "bucket", "period"]
State = Literal["ready", "warming", "uncounted"]


class Ask(Struct, array_like=True, frozen=True, kw_only=True):
    """With `is_placed` False it asks how the holder stands, and reports nothing.

    `marker` must be set for use before to be known; that of "" is.
    `head` is what the request that waits longest needs, `need` what all that wait lack, `extra` what is welcome beside.
    `recent` of `spent` was spent in the last 60 s. A higher `revision` brings the rule that holds from now on.
    """

    account: str
    shape: Shape
    marker: str
    keep_ms: int
    revision: int
    amount: int
    burst: int
    raised_amount: int
    raised_until_ms: int
    sequence: int = 0
    is_placed: bool = True
    granted: int = 0
    spent: int = 0
    returned: int = 0
    reserved: int = 0
    recent: int = 0
    head: int = 0
    need: int = 0
    extra: int = 0


class Answer(Struct, array_like=True, kw_only=True):
    """The holder's totals as the authority has them now, and the account.

    `retry_ms` until `head` fits, 0 unknown; `reset_ms` until nothing is used. `is_recalled`: somebody waits for what is
    only leased. `silent_ms`: for how long some other gateway that has promised of it to requests has said nothing.
    """

    granted: int
    spent: int
    returned: int
    limit: int
    used: int
    remaining: int
    retry_ms: int
    reset_ms: int
    is_recalled: bool
    state: State
    silent_ms: int = 0


class Reply(Struct, array_like=True, kw_only=True):
    """`holders` is how many gateways are alive, and `rank` where among them this one stands, from 0 on.

    `epoch` changes when the authority may have forgotten something.
    """

    holders: int
    epoch: str
    rank: int = 0
    answers: list[Answer] = field(default_factory=list)


class Held(Struct):
    """What the authority knows of one holder; `counted` is what usage records say it spent."""

    sequence: int = 0
    granted: int = 0
    spent: int = 0
    returned: int = 0
    reserved: int = 0
    counted: int = 0

    @property
    def lease(self) -> int:
        return max(self.granted - self.spent - self.returned, 0)


class _Account(Struct):
    rule: Ask
    holders: dict[str, Held] = field(default_factory=dict)
    base: int = 0
    spends: deque[list[int]] = field(default_factory=deque)
    debt: float = 0.0
    debt_at_ms: int = 0
    recalled_until_ms: int = 0

    def limit(self, now_ms: int) -> int:
        return self.rule.burst if self.rule.shape == "bucket" else self.amount(now_ms)

    def amount(self, now_ms: int) -> int:
        return self.rule.raised_amount if now_ms < self.rule.raised_until_ms else self.rule.amount

    def lease(self, holder: str) -> int:
        return self.holders[holder].lease if holder in self.holders else 0

    def reserved(self, holder: str) -> int:
        return self.holders[holder].reserved if holder in self.holders else 0

    def report(self, holder: str, ask: Ask, now_ms: int) -> bool:
        """False of what is old: then nothing is granted for what it says."""
        is_new = holder not in self.holders
        held = self.holders.setdefault(holder, Held())
        if ask.sequence <= held.sequence:
            return False
        held.sequence = ask.sequence
        if not ask.is_placed:
            return True
        spent = ask.spent - held.spent
        self._note_spent(min(spent, ask.recent) if is_new and ask.shape == "window" else spent, now_ms)
        held.reserved = ask.reserved
        held.spent, held.returned = max(ask.spent, held.spent), max(ask.returned, held.returned)
        held.granted = max(held.granted, ask.granted)
        return True

    def _note_spent(self, amount: int, now_ms: int) -> None:
        if amount <= 0:
            return
        if self.rule.shape == "window":
            ends_ms = now_ms - now_ms % STEP_MS + STEP_MS + WINDOW_MS
            if not self.spends or self.spends[-1][0] != ends_ms:
                self.spends.append([ends_ms, 0])
            self.spends[-1][1] += amount
        elif self.rule.shape == "bucket":
            self.debt += amount

    def used(self, now_ms: int) -> int:
        if self.rule.shape == "window":
            while self.spends and self.spends[0][0] <= now_ms:
                self.spends.popleft()
            return sum(count for _, count in self.spends)
        if self.rule.shape == "bucket":
            return -int(-self._decayed_debt(now_ms) // 1)
        if self.rule.shape == "period":
            return self.base + sum(max(held.spent, held.counted) for held in self.holders.values())
        return 0

    def _decayed_debt(self, now_ms: int) -> float:
        if now_ms > self.debt_at_ms:
            back = self.amount(now_ms) * (now_ms - self.debt_at_ms) / WINDOW_MS
            self.debt, self.debt_at_ms = max(self.debt - back, 0.0), now_ms
        return self.debt

    def retry_ms(self, missing: int, now_ms: int) -> int:
        """Until so much has come back, if no more is used meanwhile; 0 when that is not known."""
        if missing <= 0:
            return 0
        if self.rule.shape == "bucket":
            amount = self.amount(now_ms)
            return -(-missing * WINDOW_MS // amount) if amount > 0 else 0
        for ends_ms, count in self.spends:
            missing -= count
            if missing <= 0:
                return ends_ms - now_ms
        return 0

    def reset_ms(self, now_ms: int) -> int:
        if self.rule.shape == "bucket":
            amount = self.amount(now_ms)
            return -int(-self.debt * WINDOW_MS // amount) if amount > 0 else 0
        return self.spends[-1][0] - now_ms if self.spends else 0


class LocalAuthority:
    """`markers` are those of the accounts whose earlier use is known; with `knows_all` there was none before it began.

    For `warm_ms` after a start it grants nothing, so that those who still hold leases can say so.
    """

    def __init__(self, *, ttl_ms: int, warm_ms: int = 0, started_at_ms: int = 0, knows_all: bool = False) -> None:
        self._knows_all = knows_all
        self.markers: set[str] = set()
        self._ttl_ms = ttl_ms
        self._epoch = str(started_at_ms)
        self._grants_from_ms = started_at_ms + warm_ms
        self._seen_at_ms: dict[str, int] = {}
        self._accounts: dict[str, _Account] = {}
        self._kept_until_ms: dict[str, int] = {}
        self._forgets_at_ms = 0

    def exchange(self, holder: str, asks: list[Ask], now_ms: int) -> Reply:
        self._seen_at_ms[holder] = now_ms
        self._forget_unused(now_ms)
        live = self._heard_within(self._ttl_ms, now_ms)
        return Reply(
            holders=len(live),
            epoch=self._epoch,
            rank=sum(name < holder for name in live),
            answers=[self._answer(holder, ask, now_ms) for ask in asks],
        )

    def _answer(self, holder: str, ask: Ask, now_ms: int) -> Answer:
        account = self._accounts.setdefault(ask.account, _Account(rule=ask))
        self._kept_until_ms[ask.account] = now_ms + ask.keep_ms
        if ask.revision > account.rule.revision:
            account.rule = ask
        account.used(now_ms)
        is_fresh = account.report(holder, ask, now_ms)
        used, limit, held = account.used(now_ms), account.limit(now_ms), account.holders[holder]
        held.granted = max(held.granted, held.spent + held.returned + held.reserved)
        live = self._heard_within(self._ttl_ms, now_ms)
        doubtful = self._lease_of_dead(account, live, now_ms)
        remaining = limit - used - doubtful - sum(account.reserved(name) for name in live)
        state = self._state(ask, now_ms)
        if is_fresh and state == "ready":
            pool = limit - used - doubtful - sum(account.lease(name) for name in live)
            held.granted += _grant(account, ask, held, pool=pool, remaining=remaining, live=len(live), now_ms=now_ms)
        counted = max(held.spent, held.counted)
        return Answer(
            granted=max(held.granted, counted + held.returned),
            spent=counted,
            returned=held.returned,
            limit=limit,
            used=used + doubtful,
            remaining=remaining,
            retry_ms=account.retry_ms(ask.head - remaining, now_ms),
            reset_ms=account.reset_ms(now_ms),
            is_recalled=now_ms < account.recalled_until_ms,
            state=state,
            silent_ms=self._silent_ms(account, holder, live, now_ms),
        )

    def _lease_of_dead(self, account: _Account, live: list[str], now_ms: int) -> int:
        """Nobody knows how much of it they spent. Their requests ended with them, but what was spent counts."""
        if account.rule.shape == "slots":
            return 0
        heard = self._heard_within(self._ttl_ms + WINDOW_MS, now_ms)
        return sum(account.lease(name) for name in heard if name not in live)

    def _silent_ms(self, account: _Account, holder: str, live: list[str], now_ms: int) -> int:
        others = [name for name in live if name != holder and account.reserved(name)]
        return max((now_ms - self._seen_at_ms[name] for name in others), default=0)

    def _heard_within(self, span_ms: int, now_ms: int) -> list[str]:
        return [name for name, at_ms in self._seen_at_ms.items() if now_ms - at_ms <= span_ms]

    def _state(self, ask: Ask, now_ms: int) -> State:
        if now_ms < self._grants_from_ms:
            return "warming"
        return "ready" if self._knows_all or not ask.marker or ask.marker in self.markers else "uncounted"

    def _forget_unused(self, now_ms: int) -> None:
        if now_ms < self._forgets_at_ms:
            return
        self._forgets_at_ms = now_ms + WINDOW_MS
        for name in [name for name, until_ms in self._kept_until_ms.items() if until_ms < now_ms]:
            del self._kept_until_ms[name], self._accounts[name]


def _grant(account: _Account, ask: Ask, held: Held, *, pool: int, remaining: int, live: int, now_ms: int) -> int:
    """What those that wait lack, once the first of them fits; and of what is welcome the less, the less there is."""
    lacks = ask.head - (held.lease - held.reserved)
    if ask.head and pool < lacks:
        if remaining >= ask.head:
            account.recalled_until_ms = now_ms + RECALL_MS
        return 0
    needed = max(min(ask.need, pool), 0)
    if now_ms < account.recalled_until_ms:
        return needed
    return needed + max(min(ask.extra, (pool - needed) // (2 * live)), 0)

"""All accounts of this gateway. A request reserves on each of its limits or on none, and settles each once.

    demand ──▶ claims ──reserve──▶ Reservation ──settle──▶ what was used
                          │  ▲
                     waits│  │answered
                          ▼  │
                        asks ┴──▶ Shortfall, once the authority says that all is used

Told the time (`now` on a monotonic clock, `unix_time`); no I/O.
"""

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from workers.contracts.limits import LimitRule, account_of, marker_of
from workers.gateway.limits.account import Account
from workers.gateway.limits.authority import Ask, Reply
from workers.gateway.limits.claims import Claim, Shortfall, amount_of, is_used_up
from workers.gateway.limits.rulebook import Demand, TenantRules

TTL_S = 3.0  # after which the authority takes a silent holder's leases back
LEASE_S = 2.0  # after which a holder that hears nothing stops using them: well before
WAIT_S = 4.5  # longer than a killed gateway's leases live
DEGRADED_AFTER_S = 1.0
HEARTBEAT_S = 0.5
PROMISED_HEARTBEAT_S = 0.1  # while requests hold something, for which others may be waiting
FORGET_AFTER_S = 120.0
MAX_ASKS = 500


class Reservation(Struct, eq=False):
    """What a request holds. `settle` is for its end, whatever that is; only the first one counts."""

    ledger: "Ledger"
    claims: list[Claim]

    def settle(self, tokens: int, cost_pico_usd: int, now: float) -> None:
        claims, self.claims = self.claims, []
        self.ledger.settle(claims, tokens, cost_pico_usd, now)


class Waiter(Protocol):
    """A request that waits for a share. Exactly one of the two is called, once."""

    claims: list[Claim]
    rules: TenantRules
    waits_since: float

    def admitted(self, reservation: Reservation) -> None: ...
    def refused(self, shortfall: Shortfall) -> None: ...


class Ledger:
    """`waiters` in the order in which they came."""

    def __init__(self) -> None:
        self.accounts: dict[str, Account] = {}
        self.waiters: dict[Waiter, None] = {}
        self.holders, self.rank = 1, 0
        self.degraded_admissions = 0
        self._news: dict[str, Account] = {}
        self._failing_since: float | None = None
        self._lease_ends_at = float("-inf")
        self._asked_at = float("-inf")
        self._forget_at = 0.0
        self._sequence = 0
        self._open = 0
        self._epoch = ""

    # -- requests

    def claims_for(self, rules: TenantRules, demand: Demand, unix_time: float) -> list[Claim]:
        """A limit of money is no matter to a request that is free, nor one of tokens to one that has none.

        Nor one of requests to one that was counted before it came here.
        """
        claims = []
        for rule, subject in rules.rules_for(demand):
            amount = amount_of(rule, demand)
            if amount:
                claims.append(Claim(self._account(rules, rule, subject, unix_time), amount))
        return claims

    def reserve(self, claims: list[Claim], rules: TenantRules, now: float) -> Reservation | Shortfall | None:
        """None when the request has to wait: it lacks something, or others wait for the same."""
        if any(claim.account.waiting for claim in claims):
            return None
        return self._reserve(claims, rules, now)

    def wait(self, waiter: Waiter) -> None:
        self.waiters[waiter] = None
        for claim in waiter.claims:
            claim.account.waiting += 1
            self._news[claim.account.account_id] = claim.account

    def leave(self, waiter: Waiter) -> None:
        """Its client is gone, or it has been answered."""
        del self.waiters[waiter]
        for claim in waiter.claims:
            claim.account.waiting -= 1

    def settle(self, claims: list[Claim], tokens: int, cost_pico_usd: int, now: float) -> None:
        self._open -= bool(claims)
        for claim in claims:
            claim.account.settle(claim.amount, tokens, cost_pico_usd, now)
            self._news[claim.account.account_id] = claim.account

    def is_degraded(self, now: float) -> bool:
        """Nobody has answered for long, and the leases have lapsed. For single accounts: `Account.is_unknown`."""
        if self._failing_since is None or now < self._lease_ends_at:
            return False
        return now - self._failing_since >= DEGRADED_AFTER_S

    def has_unknown(self, now: float) -> bool:
        return self.is_degraded(now) or any(account.is_unknown(now) for account in self._news.values())

    # -- the authority

    def is_due(self, now: float) -> bool:
        pause_s = PROMISED_HEARTBEAT_S if self._open else HEARTBEAT_S
        return bool(self._news) or now - self._asked_at >= pause_s

    def asks(self, now: float) -> list[Ask]:
        """What to say now. One of `answered` and `failed` follows."""
        if now >= self._lease_ends_at:
            self._renounce_all()
        self._count_waiting()
        self._asked_at = now
        asks: list[Ask] = []
        for account in list(self._news.values()):
            account.give_back_if_idle(now)
            if len(asks) < MAX_ASKS and (account.is_dirty or account.waiting):
                self._sequence += 1
                asks.append(account.ask(self._sequence, now))
                self._news[account.account_id] = self._news.pop(account.account_id)  # behind those without room here
            if not account.has_news:
                del self._news[account.account_id]
        return asks

    def answered(self, asks: list[Ask], reply: Reply, *, sent_at: float, now: float) -> None:
        self.holders, self.rank = max(reply.holders, 1), reply.rank
        self._failing_since = None
        self._lease_ends_at = sent_at + LEASE_S
        for ask, answer in zip(asks, reply.answers, strict=True):
            account = self.accounts[ask.account]
            account.answered(ask, answer, sent_at)
            self._note_news(account)
        if reply.epoch != self._epoch:
            self._epoch = reply.epoch
            self._restate()
        self._decide(now)
        self._forget_unused(now)

    def failed(self, asks: list[Ask], now: float) -> None:
        """Nobody knows what arrived: all of it is said again."""
        for ask in asks:
            account = self.accounts[ask.account]
            account.is_dirty = True
            self._note_news(account)
        self._failing_since = now if self._failing_since is None else self._failing_since
        self._decide(now)

    # -- other news

    def adopt(self, rules: Iterable[LimitRule]) -> None:
        """What was leased under a rule that is another now is given back, to be asked for anew."""
        by_limit = {rule.limit_id: rule for rule in rules}
        for account in self.accounts.values():
            rule = by_limit.get(account.rule.limit_id)
            if rule == account.rule:
                continue
            if rule is not None and rule.reset_count == account.rule.reset_count:
                account.rule = rule
            account.renounce()
            self._note_news(account)

    def end_raises(self, unix_time: float) -> None:
        """What was leased while more was allowed is given back."""
        for account in self._news.values():
            until = account.rule.raised_until
            if until is not None and until <= unix_time and account.told and account.told.limit != account.rule.amount:
                account.renounce()

    def give_all_back(self) -> None:
        """For the end of this process, so that others need not wait until it is taken for dead."""
        self._restate()
        self._renounce_all()

    # -- inside

    def _account(self, rules: TenantRules, rule: LimitRule, subject: str, unix_time: float) -> Account:
        period = rules.period(rule.kind, unix_time)
        account_id = account_of(rule, period, subject)
        account = self.accounts.get(account_id)
        if account is None:
            marker = marker_of(rule, period)
            account = self.accounts[account_id] = Account(account_id, rule, period, marker=marker, subject=subject)
        return account

    def _take(self, claims: list[Claim], now: float) -> Reservation:
        for claim in claims:
            claim.account.reserve(claim.amount, now)
            self._news[claim.account.account_id] = claim.account
        self._open += bool(claims)
        return Reservation(self, claims)

    def _decide(self, now: float) -> None:
        """Those that wait, in their order: a later one never takes what an earlier one waits for."""
        passed_over: set[str] = set()
        for waiter in list(self.waiters):
            verdict = self._verdict(waiter, passed_over, now)
            if verdict is None:
                passed_over.update(claim.account.account_id for claim in waiter.claims)
                continue
            self.leave(waiter)
            if isinstance(verdict, Reservation):
                waiter.admitted(verdict)
            else:
                waiter.refused(verdict)

    def _verdict(self, waiter: Waiter, passed_over: set[str], now: float) -> Reservation | Shortfall | None:
        claims, has_waited = waiter.claims, now - waiter.waits_since >= WAIT_S
        for claim in claims:
            if is_used_up(claim, waiter.waits_since):
                return Shortfall(claim=claim)
        if not has_waited and any(claim.account.account_id in passed_over for claim in claims):
            return None
        return self._reserve(claims, waiter.rules, now, is_alone=has_waited)

    def _reserve(
        self, claims: list[Claim], rules: TenantRules, now: float, *, is_alone: bool = False
    ) -> Reservation | Shortfall | None:
        """Of each account from the lease; of one that nobody can tell about from this gateway's share."""
        has_lease, is_alone = now < self._lease_ends_at, is_alone or self.is_degraded(now)
        shared = []
        for claim in claims:
            account = claim.account
            if not (is_alone or account.is_unknown(now)):
                if not has_lease or claim.amount > account.free:
                    return None
            elif rules.degraded == "refuse" or claim.amount > account.share(self.holders, self.rank, now):
                return Shortfall(claim=claim, is_unknown=True)
            else:
                shared.append(claim)
        self.degraded_admissions += bool(shared)
        for claim in shared:
            claim.account.cover(claim.amount)
        return self._take(claims, now)

    def _count_waiting(self) -> None:
        for account in self._news.values():
            account.head = account.lacks = 0
        for waiter in self.waiters:
            for claim in waiter.claims:
                claim.account.head = claim.account.head or claim.amount
                claim.account.lacks += claim.amount

    def _note_news(self, account: Account) -> None:
        if account.has_news:
            self._news[account.account_id] = account

    def _renounce_all(self) -> None:
        for account in self._news.values():
            account.renounce()

    def _restate(self) -> None:
        """The authority may have forgotten what it was told."""
        for account in self.accounts.values():
            account.is_dirty = True
            self._news[account.account_id] = account

    def _forget_unused(self, now: float) -> None:
        if now < self._forget_at:
            return
        self._forget_at = now + FORGET_AFTER_S / 4
        for account in list(self.accounts.values()):
            is_idle = not (account.has_news or account.reserved) and now - account.last_used_at >= FORGET_AFTER_S
            if is_idle and account.account_id not in self._news:
                del self.accounts[account.account_id]

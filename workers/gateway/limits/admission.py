"""Requests at the door: within their limits they go in, at once where the lease has room; else they wait."""

import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Struct

from workers.contracts.limits import LimitEvent, TenantLimits
from workers.gateway import errors
from workers.gateway.errors import GatewayError
from workers.gateway.http.heads import Headers
from workers.gateway.limits.account import Account
from workers.gateway.limits.claims import Claim, Shortfall
from workers.gateway.limits.figures import LimitFigures
from workers.gateway.limits.ledger import Ledger, Reservation
from workers.gateway.limits.refusals import blocked, error_of, rate_headers
from workers.gateway.limits.rulebook import Demand, TenantRules, index_limits

logger = logging.getLogger(__name__)

MAX_UNTOLD_EVENTS = 200
EVENT_EACH_S = 60.0


class Applicant(Protocol):
    """A request. Exactly one of the three is called, once."""

    def go_in(self, headers: Headers) -> None: ...
    def turn_away(self, error: GatewayError) -> None: ...
    def give_up(self) -> None:
        """Its client left while it waited."""


class Asked(Struct, frozen=True):
    """What a request wants, under which rules, and since when."""

    claims: list[Claim]
    rules: TenantRules
    at: float


class Waiting:
    """Owns a client's connection while its request waits for a share."""

    __slots__ = ("_applicant", "_limits", "_receipt", "claims", "rules", "waits_since")

    def __init__(self, limits: "Limits", applicant: Applicant, receipt: object, asked: Asked) -> None:
        self._limits = limits
        self._applicant = applicant
        self._receipt = receipt
        self.claims = asked.claims
        self.rules = asked.rules
        self.waits_since = asked.at

    def admitted(self, reservation: Reservation) -> None:
        """One that fails on its way in does not keep the others waiting."""
        try:
            self._limits.let_in(self._applicant, self._receipt, reservation)
        except Exception:
            logger.exception("a request that had waited for its share failed")
            self._applicant.turn_away(errors.internal())

    def refused(self, shortfall: Shortfall) -> None:
        self._applicant.turn_away(self._limits.refusal(shortfall, self.claims))

    def stop(self) -> None:
        self._limits.ledger.leave(self)
        self._applicant.turn_away(errors.shutting_down())

    # -- from the client's connection

    def client_left(self) -> None:
        self._limits.ledger.leave(self)
        self._applicant.give_up()

    def client_paused(self) -> None:
        """Nothing is written to it yet."""

    def client_resumed(self) -> None:
        """Nor now."""


class Limits:
    """`rules` by tenant; who is not in there has no limits. `wake` has somebody talk to the authority soon."""

    def __init__(self, *, monotonic: Callable[[], float], unix_time: Callable[[], float]) -> None:
        self.rules: dict[str, TenantRules] = {}
        self.ledger = Ledger()
        self.figures = LimitFigures()
        self.events: deque[bytes] = deque(maxlen=MAX_UNTOLD_EVENTS)
        self.wake: Callable[[], None] = lambda: None
        self._monotonic = monotonic
        self._unix_time = unix_time
        self._adopted: list[TenantLimits] = []
        self._held: dict[int, Reservation] = {}

    def adopt(self, limits: list[TenantLimits]) -> None:
        if limits == self._adopted:
            return
        self._adopted = limits
        self.rules = index_limits(limits)
        self.ledger.adopt(rule for one in limits for rule in one.rules)

    def apply(self, applicant: Applicant, receipt: object, rules: TenantRules, demand: Demand) -> Waiting | None:
        """Answers the applicant now, or returns what waits in its place. `receipt` stands for it until `settled`."""
        unix_time, now = self._unix_time(), self._monotonic()
        block = rules.block_for(demand, unix_time)
        if block is not None:
            applicant.turn_away(blocked(block))
            return None
        claims = self.ledger.claims_for(rules, demand, unix_time)
        verdict = self.ledger.reserve(claims, rules, now)
        if verdict is None:
            waiting = Waiting(self, applicant, receipt, Asked(claims, rules, now))
            self.ledger.wait(waiting)
            self.wake()
            return waiting
        if isinstance(verdict, Reservation):
            self.let_in(applicant, receipt, verdict)
        else:
            applicant.turn_away(self.refusal(verdict, claims))
        return None

    def settled(self, receipt: object, tokens: int, cost_pico_usd: int) -> None:
        """Of every request that has ended, however it did; most of them hold nothing."""
        if self._held:
            reservation = self._held.pop(id(receipt), None)
            if reservation is not None:
                reservation.settle(tokens, cost_pico_usd, self._monotonic())

    def stop(self) -> None:
        """Who still waits is told that the gateway stops."""
        for waiter in list(self.ledger.waiters):
            if isinstance(waiter, Waiting):
                waiter.stop()

    def let_in(self, applicant: Applicant, receipt: object, reservation: Reservation) -> None:
        """Held from before the applicant moves, which may end at once."""
        claims = reservation.claims
        self._held[id(receipt)] = reservation
        for claim in claims:
            if claim.account.rule.soft_percent is not None:
                self._look_at_soft_limit(claim.account)
        try:
            applicant.go_in(rate_headers(claims, is_admitted=True))
        except Exception:
            self.settled(receipt, 0, 0)
            raise

    def refusal(self, shortfall: Shortfall, claims: list[Claim]) -> GatewayError:
        account, now = shortfall.claim.account, self._monotonic()
        self.figures.refused(account.rule)
        if now - account.reached_at >= EVENT_EACH_S:
            account.reached_at = now
            self._note(account, "reached")
        return error_of(shortfall, claims, self._unix_time())

    def _look_at_soft_limit(self, account: Account) -> None:
        told, percent = account.told, account.rule.soft_percent
        if told is None or percent is None:
            return
        is_near = 100 * (told.limit - account.remaining) >= percent * told.limit
        if is_near:
            self.figures.warned(account.rule)
        if is_near and not account.is_near:
            self._note(account, "near")
        account.is_near = is_near

    def _note(self, account: Account, what: str) -> None:
        limit = account.told.limit if account.told is not None else account.rule.amount
        event = LimitEvent(
            at=self._unix_time(),
            what="near" if what == "near" else "reached",
            limit_id=account.rule.limit_id,
            subject=account.subject,
            used=limit - account.remaining,
            limit=limit,
        )
        self.events.append(msgspec.json.encode(event))

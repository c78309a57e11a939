"""Gateways that share one authority, in a time of the test's own: messages may be lost, doubled or late."""

from dataclasses import dataclass, field
from typing import Any

from workers.contracts.limits import Degraded, LimitRule, TenantLimits
from workers.gateway.limits.authority import Ask, LocalAuthority, Reply
from workers.gateway.limits.claims import Claim, Shortfall
from workers.gateway.limits.ledger import TTL_S, Ledger, Reservation
from workers.gateway.limits.rulebook import Demand, TenantRules

BEGIN_S = 1_800_000_000.0


def rule(kind: str = "requests_per_minute", amount: int = 10, **changes: Any) -> LimitRule:
    fields: dict[str, Any] = {"limit_id": kind, "scope": "tenant", "kind": kind, "amount": amount}
    return LimitRule(**(fields | changes))


def demand(**changes: Any) -> Demand:
    given: dict[str, Any] = {
        "key_id": "k1",
        "member_id": "m1",
        "end_user": "",
        "model": "chat",
        "input_tokens": 0,
        "output_tokens": 0,
    }
    return Demand(**(given | changes))


@dataclass(eq=False)
class Asker:
    """A request, and what became of it."""

    claims: list[Claim]
    rules: TenantRules
    waits_since: float
    reservation: Reservation | None = None
    shortfall: Shortfall | None = None

    def admitted(self, reservation: Reservation) -> None:
        assert self.is_waiting
        self.reservation = reservation

    def refused(self, shortfall: Shortfall) -> None:
        assert self.is_waiting
        self.shortfall = shortfall

    @property
    def is_waiting(self) -> bool:
        return self.reservation is None and self.shortfall is None


@dataclass
class World:
    rules: list[LimitRule]
    gateways: int = 2
    degraded: Degraded = "share"
    time_zone: str = "UTC"
    key_origins: dict[str, str] = field(default_factory=dict)
    now: float = BEGIN_S
    authority: LocalAuthority = field(init=False)
    ledgers: dict[str, Ledger] = field(init=False)
    tenant: TenantRules = field(init=False)

    def __post_init__(self) -> None:
        self.authority = LocalAuthority(ttl_ms=int(TTL_S * 1000))
        self.ledgers = {f"g{number}": Ledger() for number in range(1, self.gateways + 1)}
        self.set_rules(self.rules)

    def set_rules(self, rules: list[LimitRule]) -> None:
        limits = TenantLimits(
            tenant_id="t1",
            rules=rules,
            degraded=self.degraded,
            time_zone=self.time_zone,
            key_origins=self.key_origins,
        )
        self.tenant = TenantRules(limits)
        for ledger in self.ledgers.values():
            ledger.adopt(rules)

    def ask(self, gateway: str = "g1", **wants: Any) -> Asker:
        """A request arrives; it may have to wait."""
        ledger = self.ledgers[gateway]
        claims = ledger.claims_for(self.tenant, demand(**wants), self.now)
        asker = Asker(claims, self.tenant, self.now)
        verdict = ledger.reserve(claims, self.tenant, self.now)
        if verdict is None:
            ledger.wait(asker)
        elif isinstance(verdict, Reservation):
            asker.admitted(verdict)
        else:
            asker.refused(verdict)
        return asker

    def settle(self, asker: Asker, *, tokens: int = 0, cost_pico_usd: int = 0) -> None:
        assert asker.reservation is not None
        asker.reservation.settle(tokens, cost_pico_usd, self.now)

    def send(self, gateway: str) -> list[Ask]:
        return self.ledgers[gateway].asks(self.now)

    def deliver(self, gateway: str, asks: list[Ask]) -> Reply:
        return self.authority.exchange(gateway, asks, int(self.now * 1000))

    def exchange(self, gateway: str) -> None:
        asks, sent_at = self.send(gateway), self.now
        reply = self.deliver(gateway, asks)
        self.ledgers[gateway].answered(asks, reply, sent_at=sent_at, now=self.now)

    def turn(self, seconds: float = 0.05) -> None:
        """Each gateway talks once."""
        self.now += seconds
        for gateway in self.ledgers:
            self.exchange(gateway)

    def turns(self, seconds: float, step_s: float = 0.05) -> None:
        for _ in range(round(seconds / step_s)):
            self.turn(step_s)

    def outcome(self, asker: Asker, turns: int = 100) -> bool:
        """Whether it is admitted in the end."""
        for _ in range(turns):
            if not asker.is_waiting:
                break
            self.turn()
        assert not asker.is_waiting, "a request waits for ever"
        return asker.reservation is not None

    def count_admitted(self, *gateways: str, **wants: Any) -> int:
        """One request at each of these, in turn, all at once."""
        askers = [self.ask(gateway, **wants) for gateway in gateways]
        return sum(self.outcome(asker) for asker in askers)

    def crash(self, gateway: str) -> None:
        del self.ledgers[gateway]

    def start(self, gateway: str) -> None:
        self.ledgers[gateway] = Ledger()

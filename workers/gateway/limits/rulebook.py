"""Which limits a request comes under: those of its tenant, of the key's owner, of the end user, and of the key."""

from collections.abc import Mapping
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from workers.contracts.limit_periods import period_at
from workers.contracts.limits import EACH, Block, LimitRule, Period, Scope, TenantLimits, subject_name
from workers.contracts.snapshot import Price

_UTC = ZoneInfo("UTC")


class Demand(Struct, frozen=True, kw_only=True):
    """A request before it is served. `end_user` is whom it names, else the key's owner stands in.

    `output_tokens` is the most there may be, or, where the client set no limit (`is_output_known` False), what was
    learned. `is_counted`: a limit of requests has it already, and only what it uses is still to be counted.
    """

    key_id: str
    member_id: str
    end_user: str
    model: str
    input_tokens: int
    output_tokens: int
    is_output_known: bool = True
    is_counted: bool = False
    price: Price = Price()

    def subject(self, scope: Scope, key_origins: Mapping[str, str]) -> str:
        if scope == "key":
            return key_origins.get(self.key_id, self.key_id)
        if scope == "member":
            return self.member_id
        return (self.end_user or self.member_id) if scope == "end_user" else ""


class _Choice(Struct):
    """Of the rules of one scope, kind, model and setter: who is named has that one, all others the one for each."""

    scope: Scope
    model: str
    by_subject: dict[str, LimitRule]

    def rule_for(self, demand: Demand, key_origins: Mapping[str, str]) -> tuple[LimitRule, str] | None:
        if self.model and self.model != demand.model:
            return None
        subject = demand.subject(self.scope, key_origins)
        rule = self.by_subject.get(subject) or self.by_subject.get(EACH)
        return (rule, subject) if rule is not None else None


class TenantRules:
    """A tenant's limits, indexed. Periods are kept until they end."""

    def __init__(self, limits: TenantLimits) -> None:
        self.tenant_id = limits.tenant_id
        self.degraded = limits.degraded
        self._zone = zone_named(limits.time_zone)
        self._blocks = limits.blocks
        self._key_origins = limits.key_origins
        self._periods: dict[str, Period] = {}
        choices: dict[tuple[str, ...], _Choice] = {}
        for rule in limits.rules:
            choice = choices.setdefault(
                (rule.scope, rule.kind, rule.model, rule.setter, rule.tenant_id), _Choice(rule.scope, rule.model, {})
            )
            choice.by_subject[self._key_origins.get(rule.subject, rule.subject)] = rule
        self._choices = list(choices.values())

    def rules_for(self, demand: Demand) -> list[tuple[LimitRule, str]]:
        """Each with the subject's name."""
        found = [choice.rule_for(demand, self._key_origins) for choice in self._choices]
        return [
            (rule, subject_name(rule.tenant_id or self.tenant_id, subject)) for rule, subject in filter(None, found)
        ]

    def block_for(self, demand: Demand, unix_time: float) -> Block | None:
        for block in self._blocks:
            is_over = block.until is not None and block.until <= unix_time
            blocked = self._key_origins.get(block.subject, block.subject)
            if not is_over and blocked == demand.subject(block.scope, self._key_origins):
                return block
        return None

    def period(self, kind: str, unix_time: float) -> Period:
        known = self._periods.get(kind)
        if known is None or not known.start <= unix_time < known.end:
            known = self._periods[kind] = period_at(kind, self._zone, unix_time)
        return known


def zone_named(name: str) -> ZoneInfo:
    """UTC for a name that this machine does not know."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return _UTC


def index_limits(limits: list[TenantLimits]) -> dict[str, TenantRules]:
    """By tenant; one without rules and blocks is left out, and costs its requests one look-up."""
    return {one.tenant_id: TenantRules(one) for one in limits if one.rules or one.blocks}

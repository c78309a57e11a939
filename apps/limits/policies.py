"""What a sound limit is, who may set which, and how amounts are written. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from apps.common.actors import Actor
from apps.tenants.matrix import Permission, may, may_somewhere
from workers.contracts.limits import EACH, MINUTE_KINDS, MONEY_KINDS

NANO_PER_USD = 10**9
BIGGEST_AMOUNT = 2**53 - 1  # what Valkey's arithmetic holds exactly
OPERATOR = "operator"
TENANT = "tenant"


def may_set_for(actor: Actor, tenant_id: UUID | None) -> bool:
    """Defaults of every tenant are the operator's."""
    if tenant_id is None:
        return may_somewhere(actor, Permission.OPERATE)
    return may(actor, Permission.MANAGE_TENANT, tenant_id)


def may_change(actor: Actor, setter: str, tenant_id: UUID | None) -> bool:
    """An admin changes what an admin has set; what an operator set only operators change."""
    if setter == OPERATOR:
        return may_somewhere(actor, Permission.OPERATE)
    return may_set_for(actor, tenant_id)


def setter_of(actor: Actor) -> str:
    return OPERATOR if may_somewhere(actor, Permission.OPERATE) else TENANT


def problem_of(  # noqa: PLR0911 - one answer each
    *, setter: str, scope: str, subject: str, kind: str, amount: int, burst: int | None
) -> tuple[str, str] | None:
    """The field at fault and what is wrong with it."""
    if setter == TENANT and scope == "tenant":
        return "scope", "an admin sets limits for members, users and keys; the tenant's own is the operator's"
    if scope == "tenant" and subject:
        return "subject", "a tenant's limit names nobody"
    if scope != "tenant" and not subject:
        return "subject", f"name whom it is for, or {EACH} for each"
    if scope in {"member", "key"} and subject != EACH and not is_uuid(subject):
        return "subject", f"give the {scope}'s id, or {EACH} for each"
    if burst is not None and kind not in MINUTE_KINDS:
        return "burst", "only limits per minute have a burst"
    if burst is not None and (burst < 1 or burst > amount):
        return "burst", "from 1 to the amount"
    return None


def is_uuid(text: str) -> bool:
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True


def units_of(kind: str, amount: Decimal) -> int | None:
    """Dollars in nanodollars, everything else as it is; None of what is no whole number of units or out of range."""
    try:
        units = amount * NANO_PER_USD if kind in MONEY_KINDS else amount
        return int(units) if units == int(units) and 0 <= units <= BIGGEST_AMOUNT else None
    except (InvalidOperation, OverflowError, ValueError):
        return None


def amount_of(kind: str, units: int) -> Decimal:
    return Decimal(units).scaleb(-9).normalize() if kind in MONEY_KINDS else Decimal(units)


def shown_amount(kind: str, units: int | None) -> str:
    if units is None:
        return ""
    if kind in MONEY_KINDS:
        return f"${amount_of(kind, units):,f}"
    return f"{units:,}".replace(",", " ")


def shown_limit(kind: str, units: int, scope: str, subject: str, public_model: str) -> str:
    whom = {"": "the tenant", EACH: f"each {scope.replace('_', ' ')}"}.get(subject, f"{scope} {subject}")
    model = f" on {public_model}" if public_model else ""
    return f"{shown_amount(kind, units)} {kind.removeprefix('cost_').replace('_', ' ')} for {whom}{model}"


# -- how use is put together from usage records


@dataclass(frozen=True, kw_only=True)
class Counted:
    """What an account is to be set to: `base` of processes that are gone, `by_holder` of those that may still report.

    `dropped` are holders whose memory is in `base` now.
    """

    base: int
    by_holder: dict[str, int] = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()


def put_together(truth: Mapping[str, int], reported: Mapping[str, int], alive: frozenset[str]) -> Counted:
    """`truth` is what records say by gateway process, `reported` what those processes said themselves.

    A process stays apart while it lives, and after that until its records have caught up with what it said.
    """
    apart = {
        holder for holder in [*truth, *reported] if holder in alive or reported.get(holder, 0) > truth.get(holder, 0)
    }
    return Counted(
        base=sum(used for holder, used in truth.items() if holder not in apart),
        by_holder={holder: truth.get(holder, 0) for holder in sorted(apart)},
        dropped=frozenset(holder for holder in reported if holder not in apart),
    )

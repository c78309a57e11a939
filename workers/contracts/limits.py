"""What tenants, their users and their keys may use: part of a snapshot; and how use is named and kept in Valkey.

Amounts are whole numbers of the kind's unit: requests, tokens (input and output), or nanodollars (1e-9 USD), which
Valkey's arithmetic holds exactly up to nine million dollars.
"""

from typing import Literal

from msgspec import Struct, field

Scope = Literal["tenant", "member", "end_user", "key"]
Kind = Literal[
    "requests_per_minute",
    "tokens_per_minute",
    "concurrent_requests",
    "tokens_per_day",
    "tokens_per_month",
    "cost_per_day",
    "cost_per_month",
    "cost_total",
]
Span = Literal["day", "month", "total"]
Degraded = Literal["share", "refuse"]

SCOPES: tuple[Scope, ...] = ("tenant", "member", "end_user", "key")
MINUTE_KINDS = frozenset(("requests_per_minute", "tokens_per_minute"))
MONEY_KINDS = frozenset(("cost_per_day", "cost_per_month", "cost_total"))
SPANS: dict[str, Span] = {
    "tokens_per_day": "day",
    "tokens_per_month": "month",
    "cost_per_day": "day",
    "cost_per_month": "month",
    "cost_total": "total",
}
EACH = "*"
PICO_PER_NANO = 1000

PREFIX = "tokenyard:limits:"
HOLDERS_KEY = f"{PREFIX}holders"
EVENTS_KEY = f"{PREFIX}events"
COUNTED_KEY = f"{PREFIX}counted:"
ACCOUNTS_OF_KEY = f"{PREFIX}of:"
ACCOUNT_KEY = f"{PREFIX}a:"
WINDOW_KEY = f"{PREFIX}w:"
MAX_EVENTS = 1000


class LimitRule(Struct, frozen=True, kw_only=True):
    """`amount` of `kind` for `subject`.

    That is a member's id, an end user's name, a key's id, "" of the tenant itself; or "*", which gives each its own
    account unless a rule of the same setter names it. `tenant_id` where the account is that of a tenant above the one
    whose list this stands in, which all below it share.

    `model` is a public name, "" for all together. `burst`, of a limit per minute: at most so much at once, which then
    comes back evenly; without it the limit holds in any 60 s. `soft_percent` of it warns. Until `raised_until` (Unix
    seconds) `raised_amount` holds instead. `revision` grows with each change, `reset_count` with each reset, and the
    use before it is forgotten. `is_counted_by_control_plane`: use of the period before this gateway is read from there.
    """

    limit_id: str
    scope: Scope
    kind: Kind
    amount: int
    subject: str = ""
    model: str = ""
    burst: int | None = None
    soft_percent: int | None = None
    raised_amount: int | None = None
    raised_until: float | None = None
    revision: int = 0
    reset_count: int = 0
    setter: Literal["operator", "tenant"] = "operator"
    is_counted_by_control_plane: bool = False
    tenant_id: str = ""


class Block(Struct, frozen=True, kw_only=True):
    """Nothing is served to `subject` until then (Unix seconds), or until it is lifted."""

    scope: Scope
    subject: str = ""
    reason: str = ""
    until: float | None = None


class TenantLimits(Struct, frozen=True, kw_only=True):
    """Days and months are those of `time_zone` (IANA).

    `degraded`: while Valkey cannot be asked, each gateway admits its share of what was left, or refuses. `key_origins`
    has of each key that was made by rotating another the first of that chain: all of a chain are one key to a limit.
    """

    tenant_id: str
    time_zone: str = "UTC"
    degraded: Degraded = "share"
    rules: list[LimitRule] = field(default_factory=list)
    blocks: list[Block] = field(default_factory=list)
    key_origins: dict[str, str] = field(default_factory=dict)


class LimitEvent(Struct, frozen=True, kw_only=True):
    """`what` happened to `subject` (as `subject_name` has it) at `at` (Unix seconds)."""

    at: float
    what: Literal["near", "reached"]
    limit_id: str
    subject: str
    used: int
    limit: int


class Period(Struct, frozen=True):
    """`start` ≤ t < `end` in Unix seconds; `name` tells it from the others of its limit, also in another zone."""

    name: str
    start: float
    end: float


def subject_name(tenant_id: str, subject: str) -> str:
    """Of the tenant itself when `subject` is empty; two tenants' users of one name are two."""
    return f"{tenant_id}/{subject}"


def marker_of(rule: LimitRule, period: Period) -> str:
    """Names all accounts of one limit in one period."""
    return f"{rule.limit_id}.{rule.reset_count}.{period.name}"


def account_of(rule: LimitRule, period: Period, subject: str) -> str:
    """`subject` as `subject_name` has it."""
    return f"{marker_of(rule, period)}:{subject}"

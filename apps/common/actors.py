"""Who acts: a value that policies judge and audit entries name."""

from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, kw_only=True)
class Actor:
    """`roles` maps the tenants the actor belongs to, and all below them, onto the role there.

    A platform admin is an operator and finance, too. `scopes` are the permissions of a service token, or None;
    `until` is its end, if it has one.
    """

    user_id: UUID | None
    name: str
    is_platform_admin: bool = False
    is_operator: bool = False
    is_finance: bool = False
    roles: dict[UUID, str] = field(default_factory=dict)
    scopes: frozenset[str] | None = None
    until: datetime | None = None


SYSTEM = Actor(user_id=None, name="system", is_operator=True)

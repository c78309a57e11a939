"""Who acts: a value that policies judge and audit entries name."""

from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, kw_only=True)
class Actor:
    """`roles` maps the tenants the actor belongs to onto the role there."""

    user_id: UUID | None
    name: str
    is_operator: bool = False
    is_finance: bool = False
    roles: dict[UUID, str] = field(default_factory=dict)


SYSTEM = Actor(user_id=None, name="system", is_operator=True)

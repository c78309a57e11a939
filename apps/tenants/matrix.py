"""Which role may do what: the one table that every page, REST endpoint and websocket obeys. docs/roles.md shows it.

A platform role holds for every tenant, a tenant role for its tenant and those below it.
"""

from dataclasses import replace
from enum import StrEnum
from uuid import UUID

from apps.common.actors import Actor


class Role(StrEnum):
    """The last two stand for people without a role: who is signed in, and who is not."""

    PLATFORM_ADMIN = "platform_admin"
    OPERATOR = "operator"
    FINANCE = "finance"
    TENANT_ADMIN = "tenant_admin"
    DEVELOPER = "developer"
    VIEWER = "viewer"
    ANYONE = "anyone"
    NOBODY = "nobody"


class Permission(StrEnum):
    """The values are the scopes of service tokens."""

    OPEN = "open"
    SIGNED_IN = "self"
    SEE_TENANT = "tenant:read"
    SEE_KEYS = "keys:read"
    CREATE_KEYS = "keys:write"
    REVOKE_KEYS = "keys:revoke"
    MANAGE_MEMBERS = "members:write"
    MANAGE_TENANT = "tenant:write"
    READ_PROMPTS = "prompts:read"
    MANAGE_PROMPTS = "prompts:write"
    SEE_AUDIT = "audit:read"
    SET_PRICES = "prices:write"
    SET_BUDGETS = "budgets:write"
    OPERATE = "platform:write"
    MANAGE_USERS = "users:write"


_PLATFORM = {Role.PLATFORM_ADMIN, Role.OPERATOR}
_MEMBERS = {Role.TENANT_ADMIN, Role.DEVELOPER, Role.VIEWER}
_ROLES = {*_PLATFORM, Role.FINANCE, *_MEMBERS}

MATRIX: dict[Permission, frozenset[Role]] = {
    Permission.OPEN: frozenset({*_ROLES, Role.ANYONE, Role.NOBODY}),
    Permission.SIGNED_IN: frozenset({*_ROLES, Role.ANYONE}),
    Permission.SEE_TENANT: frozenset(_ROLES),
    Permission.SEE_KEYS: frozenset({*_PLATFORM, *_MEMBERS}),
    Permission.CREATE_KEYS: frozenset({*_PLATFORM, Role.TENANT_ADMIN, Role.DEVELOPER}),
    Permission.REVOKE_KEYS: frozenset({*_PLATFORM, Role.TENANT_ADMIN}),
    Permission.MANAGE_MEMBERS: frozenset({*_PLATFORM, Role.TENANT_ADMIN}),
    Permission.MANAGE_TENANT: frozenset({*_PLATFORM, Role.TENANT_ADMIN}),
    Permission.READ_PROMPTS: frozenset({Role.TENANT_ADMIN, Role.DEVELOPER}),
    Permission.MANAGE_PROMPTS: frozenset({Role.TENANT_ADMIN}),
    Permission.SEE_AUDIT: frozenset({*_PLATFORM, Role.TENANT_ADMIN}),
    Permission.SET_PRICES: frozenset({*_PLATFORM, Role.FINANCE}),
    Permission.SET_BUDGETS: frozenset({*_PLATFORM, Role.FINANCE, Role.TENANT_ADMIN}),
    Permission.OPERATE: frozenset(_PLATFORM),
    Permission.MANAGE_USERS: frozenset({Role.PLATFORM_ADMIN}),
}


def may(actor: Actor, permission: Permission, tenant_id: UUID) -> bool:
    """Whether the actor has the permission for that tenant."""
    own = actor.roles.get(tenant_id)
    return _is_in_scope(actor, permission) and bool(
        MATRIX[permission] & (_platform_roles(actor) | ({Role(own)} if own else set()))
    )


def may_somewhere(actor: Actor, permission: Permission) -> bool:
    """Whether the actor has the permission for the platform or for any tenant: what the door asks."""
    held = _platform_roles(actor) | {Role(role) for role in actor.roles.values()}
    return _is_in_scope(actor, permission) and bool(MATRIX[permission] & held)


def is_withheld(actor: Actor, permission: Permission) -> bool:
    """Whether a token's scopes leave out what its owner may."""
    return not _is_in_scope(actor, permission) and may_somewhere(replace(actor, scopes=None), permission)


def scopes_for(actor: Actor) -> list[str]:
    """What a token of this actor can be given."""
    return [permission.value for permission in MATRIX if may_somewhere(actor, permission)]


def _is_in_scope(actor: Actor, permission: Permission) -> bool:
    return actor.scopes is None or permission in {Permission.OPEN, Permission.SIGNED_IN, *actor.scopes}


def _platform_roles(actor: Actor) -> set[Role]:
    held = {Role.ANYONE}
    if actor.is_platform_admin:
        held.add(Role.PLATFORM_ADMIN)
    if actor.is_operator:
        held.add(Role.OPERATOR)
    if actor.is_finance:
        held.add(Role.FINANCE)
    return held

"""Who may do what. Pure: an actor and ids in, a yes or no out."""

from uuid import UUID

from apps.common.actors import Actor

TENANT_ADMIN = "tenant_admin"
DEVELOPER = "developer"
VIEWER = "viewer"

MAX_PLAYGROUND_KEYS = 5
PLAYGROUND_KEY_LIFETIME_S = 3600


def may_operate(actor: Actor) -> bool:
    return actor.is_operator


def may_see_tenant(actor: Actor, tenant_id: UUID) -> bool:
    return actor.is_operator or actor.is_finance or tenant_id in actor.roles


def may_manage_members(actor: Actor, tenant_id: UUID) -> bool:
    return actor.is_operator or actor.roles.get(tenant_id) == TENANT_ADMIN


def may_see_keys(actor: Actor, tenant_id: UUID) -> bool:
    return actor.is_operator or tenant_id in actor.roles


def may_create_key(actor: Actor, tenant_id: UUID) -> bool:
    return actor.is_operator or actor.roles.get(tenant_id) in {TENANT_ADMIN, DEVELOPER}


def may_revoke_key(actor: Actor, tenant_id: UUID, owner_id: UUID | None) -> bool:
    if may_manage_members(actor, tenant_id):
        return True
    return actor.roles.get(tenant_id) == DEVELOPER and owner_id is not None and owner_id == actor.user_id


def may_see_usage(actor: Actor, tenant_id: UUID | None) -> bool:
    """`None` asks for the usage of every tenant."""
    if actor.is_operator or actor.is_finance:
        return True
    return tenant_id is not None and tenant_id in actor.roles


def may_set_prices(actor: Actor) -> bool:
    return actor.is_operator or actor.is_finance


def has_every_tenant(actor: Actor) -> bool:
    return actor.is_operator or actor.is_finance

"""Who may do what. Pure: an actor and ids in, a yes or no out. The rules themselves are in `matrix`."""

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from uuid import UUID

from apps.common.actors import Actor
from apps.common.errors import InvalidInputError
from apps.tenants.matrix import Permission, may, may_somewhere

TENANT_ADMIN = "tenant_admin"
DEVELOPER = "developer"
VIEWER = "viewer"
_STRONGEST_FIRST = (TENANT_ADMIN, DEVELOPER, VIEWER)

LEVELS = ("organisation", "team", "project")

MAX_PLAYGROUND_KEYS = 5
PLAYGROUND_KEY_LIFETIME_S = 3600
MAX_KEY_NETWORKS = 64
MAX_KEY_PATHS = 20
MAX_OVERLAP_S = 30 * 86_400


def may_operate(actor: Actor) -> bool:
    return may_somewhere(actor, Permission.OPERATE)


def may_see_tenant(actor: Actor, tenant_id: UUID) -> bool:
    return may(actor, Permission.SEE_TENANT, tenant_id)


def may_manage_members(actor: Actor, tenant_id: UUID) -> bool:
    return may(actor, Permission.MANAGE_MEMBERS, tenant_id)


def may_manage_tenant(actor: Actor, tenant_id: UUID) -> bool:
    return may(actor, Permission.MANAGE_TENANT, tenant_id)


def may_remove_tenant(actor: Actor, tenant_id: UUID, parent_id: UUID | None) -> bool:
    """An operator removes any tenant; an admin only what is below a tenant of theirs."""
    is_own_to_remove = may_operate(actor) or parent_id is not None
    return is_own_to_remove and may_manage_tenant(actor, parent_id or tenant_id)


def may_see_audit(actor: Actor, tenant_id: UUID) -> bool:
    return may(actor, Permission.SEE_AUDIT, tenant_id)


def may_see_keys(actor: Actor, tenant_id: UUID) -> bool:
    return may(actor, Permission.SEE_KEYS, tenant_id)


def may_create_key(actor: Actor, tenant_id: UUID) -> bool:
    return may(actor, Permission.CREATE_KEYS, tenant_id)


def may_revoke_key(actor: Actor, tenant_id: UUID, owner_id: UUID | None) -> bool:
    """Who makes keys revokes their own; admins revoke any."""
    is_own = owner_id is not None and owner_id == actor.user_id
    return may(actor, Permission.REVOKE_KEYS, tenant_id) or (is_own and may_create_key(actor, tenant_id))


def may_set_prices(actor: Actor) -> bool:
    return may_somewhere(actor, Permission.SET_PRICES)


def has_every_tenant(actor: Actor) -> bool:
    return actor.is_operator or actor.is_finance


@dataclass(frozen=True)
class Branch:
    """A tenant and its place in the tree."""

    tenant_id: UUID
    parent_id: UUID | None


def inherited_roles(own: dict[UUID, str], branches: Iterable[Branch]) -> dict[UUID, str]:
    """A member's roles with those that come from above; `branches` has every tenant after its parent.

    Where a role of the tenant's own meets an inherited one, the stronger holds.
    """
    roles = dict(own)
    for branch in branches:
        above = roles.get(branch.parent_id) if branch.parent_id is not None else None
        held = [role for role in (roles.get(branch.tenant_id), above) if role]
        if held:
            roles[branch.tenant_id] = min(held, key=_STRONGEST_FIRST.index)
    return roles


def normal_networks(texts: Iterable[str]) -> list[str]:
    """CIDR ranges as IPv4 and IPv6 write them, sorted; a plain address is a range of one."""
    found = set()
    for text in texts:
        try:
            found.add(str(_network(text)))
        except ValueError as error:
            message = f"{text[:50]!r} is no address or range; write 10.0.0.0/8 or 2001:db8::/32"
            raise InvalidInputError(message, fields={"networks": message}) from error
    if len(found) > MAX_KEY_NETWORKS:
        message = f"at most {MAX_KEY_NETWORKS} ranges"
        raise InvalidInputError(message, fields={"networks": message})
    return sorted(found)


def _network(text: str) -> IPv4Network | IPv6Network:
    """The zone of a link is the client's machine's own word, which no gateway knows."""
    if "%" in text:
        raise ValueError(text)
    return ip_network(text.strip(), strict=False)


def normal_paths(texts: Iterable[str], *, known: Iterable[str]) -> list[str]:
    """Paths of the gateway, sorted."""
    found, allowed = {text.strip() for text in texts}, set(known)
    if unknown := sorted(found - allowed):
        message = f"{unknown[0][:100]!r} is no path of a gateway"
        raise InvalidInputError(message, fields={"paths": message})
    return sorted(found)

"""Who may see and set what concerns money. Pure."""

from uuid import UUID

from apps.common.actors import Actor
from apps.tenants.policies import TENANT_ADMIN


def may_set_budget(actor: Actor, tenant_id: UUID | None) -> bool:
    """None: the budget of everybody together."""
    if actor.is_operator or actor.is_finance:
        return True
    return tenant_id is not None and actor.roles.get(tenant_id) == TENANT_ADMIN

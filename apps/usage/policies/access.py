"""Who may see and set what concerns money. Pure."""

from uuid import UUID

from apps.common.actors import Actor
from apps.tenants.matrix import Permission, may
from apps.tenants.policies import may_set_prices


def may_set_budget(actor: Actor, tenant_id: UUID | None) -> bool:
    """None: the budget of everybody together."""
    return may_set_prices(actor) if tenant_id is None else may(actor, Permission.SET_BUDGETS, tenant_id)

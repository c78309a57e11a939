"""Which tables can be watched, and whose change is also a change of another row, which shows it. Pure.

`quiet` columns change without anybody being told: a heartbeat is no news.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Watched:
    """`parents` are columns with the table whose row shows this one; `tenant` is the column that says whose it is."""

    table: str
    quiet: frozenset[str] = field(default=frozenset())
    parents: tuple[tuple[str, str], ...] = ()
    tenant: str = ""
    key: str = "id"


WATCHED = (
    Watched("registry_model"),
    Watched("registry_modelversion"),
    Watched("fleet_node", quiet=frozenset({"last_seen_at", "token_sha256"})),
    Watched("fleet_accelerator", parents=(("node_id", "fleet_node"),)),
    Watched("fleet_jointoken"),
    Watched("deployments_deployment"),
    Watched("deployments_replica", parents=(("deployment_id", "deployments_deployment"),)),
    Watched("deployments_replicaevent"),
    Watched("deployments_revision"),
    Watched("routing_route"),
    Watched("routing_routetarget", parents=(("route_id", "routing_route"),)),
    Watched("tenants_tenant", tenant="id"),
    Watched("tenants_membership", tenant="tenant_id"),
    Watched("tenants_invitation", tenant="tenant_id"),
    Watched("tenants_apikey", quiet=frozenset({"last_used_at"}), tenant="tenant_id"),
    Watched("tenants_user", quiet=frozenset({"last_login", "password"})),
    Watched("quotas_serviceclass"),
    Watched("quotas_sloprofile"),
    Watched("limits_limit", tenant="tenant_id"),
    Watched("limits_block", tenant="tenant_id"),
    Watched("limits_raiserequest", tenant="tenant_id"),
    Watched("usage_budget", tenant="tenant_id"),
    Watched("usage_priceentry"),
    Watched("usage_tenantdiscount", tenant="tenant_id"),
    Watched("usage_rerating"),
    Watched("audit_auditentry", tenant="tenant_id"),
)
KINDS = frozenset(each.table for each in WATCHED)

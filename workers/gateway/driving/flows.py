"""Fair shares inside a tenant: `x-gateway-inference-fairness-id` names the flow that a request belongs to.

A tenant's flows divide its weight and its queue among them, so that inventing flows wins nothing.
"""

from zlib import crc32

from workers.contracts.snapshot import TenantPolicy

MAX_FLOWS_PER_TENANT = 64


class Share:
    """What a request has of its tenant. `account` is what the scheduler knows the flow by."""

    __slots__ = ("account", "max_queued", "weight")

    def __init__(self, account: str, weight: float, max_queued: int) -> None:
        self.account = account
        self.weight = weight
        self.max_queued = max_queued


class Flows:
    """Counts the live requests of each flow. Flows beyond the bound of their tenant share accounts."""

    def __init__(self) -> None:
        self._live: dict[str, dict[str, int]] = {}

    def divides(self, tenant_id: str) -> bool:
        """Whether any flow of the tenant is live."""
        return tenant_id in self._live

    def enter(self, tenant: TenantPolicy, fairness_id: bytes) -> Share:
        if not fairness_id and tenant.tenant_id not in self._live:
            return Share(tenant.tenant_id, tenant.weight, tenant.max_queued_requests)
        account = tenant.tenant_id
        flows = self._live.setdefault(tenant.tenant_id, {})
        if fairness_id:
            account = f"{tenant.tenant_id}/{crc32(fairness_id) % MAX_FLOWS_PER_TENANT}"
            flows[account] = flows.get(account, 0) + 1
        others = len(flows) + (account not in flows)
        return Share(account, tenant.weight / others, max(1, tenant.max_queued_requests // others))

    def weights(self, tenant: TenantPolicy) -> dict[str, float]:
        """Of all accounts that the tenant has now."""
        flows = self._live.get(tenant.tenant_id, {})
        accounts = dict.fromkeys(flows, tenant.weight / max(1, len(flows)))
        accounts[tenant.tenant_id] = tenant.weight / (len(flows) + 1)
        return accounts

    def leave(self, tenant_id: str, account: str) -> None:
        """Of a request that entered with a fairness id; any other account is unknown here."""
        flows = self._live.get(tenant_id)
        if flows is None or account not in flows:
            return
        flows[account] -= 1
        if not flows[account]:
            del flows[account]
        if not flows:
            del self._live[tenant_id]

from uuid import UUID

from apps.common.errors import NotFoundError
from apps.tenants.models import Tenant


def lock_tenant(tenant_id: UUID) -> Tenant:
    """Until the transaction ends, what hangs on it neither comes nor goes. One that was removed is not there."""
    tenant = Tenant.objects.present().select_for_update().filter(pk=tenant_id).first()
    if tenant is None:
        raise NotFoundError("no such tenant")
    return tenant

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from apps.common.actors import Actor
from apps.common.errors import NotFoundError
from apps.telemetry.models import RequestDecision
from apps.tenants.policies import has_every_tenant
from workers.contracts.decisions import RequestDecision as Told

# Between the clocks of a trail and of its usage record, which are read one after the other.
SAME_REQUEST = timedelta(seconds=1)


def get_decision(*, actor: Actor, request_id: str) -> Told:
    """The newest on a request of that id, of a tenant that the actor may see."""
    found = RequestDecision.objects.filter(request_id=request_id.replace("\0", ""))
    if not has_every_tenant(actor):
        found = found.filter(tenant_id__in=list(actor.roles))
    row = found.order_by("-arrived_at").first()
    if row is None:
        raise NotFoundError("nothing is remembered of that request: it is unknown, a day old, or not told of yet")
    return _told(row)


def find_decision(*, tenant_id: UUID, request_id: str, arrived_at: datetime) -> Told | None:
    """On the request of one usage record; a request id may have been used more than once."""
    around = (arrived_at - SAME_REQUEST, arrived_at + SAME_REQUEST)
    row = RequestDecision.objects.filter(tenant_id=tenant_id, request_id=request_id, arrived_at__range=around).first()
    return _told(row) if row is not None else None


def _told(row: RequestDecision) -> Told:
    return msgspec.convert(row.body, Told)

"""Who changed what, when: all of it for operators, a tenant's own for its admins."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.audit.selectors import AuditQuery, list_matching
from apps.common.parsing import parsed
from apps.tenants import serializers
from apps.tenants.access import ActorView
from apps.tenants.matrix import Permission
from apps.tenants.selectors import audited_tenants


class AuditView(ActorView):
    rules = {"GET": Permission.SEE_AUDIT}
    has_own_filters = True

    @extend_schema(parameters=[serializers.AuditQuerySerializer], responses=serializers.AuditEntrySerializer(many=True))
    def get(self, request: Request) -> Response:
        asked: dict[str, Any] = parsed(serializers.AuditQuerySerializer, request.query_params)
        tenant_ids = audited_tenants(actor=self.actor, tenant_id=asked.pop("tenant"))
        return self.paged(list_matching(AuditQuery(tenant_ids=tenant_ids, **asked)), serializers.AuditEntrySerializer)

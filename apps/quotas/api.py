from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.quotas import selectors, serializers, services
from apps.tenants.access import WRITES, ActorView, OperatorView
from apps.tenants.matrix import Permission
from apps.tenants.policies import may_manage_tenant, may_remove_tenant
from apps.tenants.selectors import get_tenant, list_children, list_tenants
from apps.tenants.services import remove_tenant


class TenantsView(ActorView):
    rules = {"GET": Permission.SIGNED_IN, "POST": Permission.OPERATE}

    @extend_schema(responses=serializers.TenantSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        self.require_scope(Permission.SEE_TENANT)
        return self.paged(list_tenants(actor=self.actor), serializers.TenantSerializer)

    @extend_schema(request=serializers.NewTenantSerializer, responses={201: serializers.TenantSerializer})
    def post(self, request: Request) -> Response:
        new = _with_rows(parsed(serializers.NewTenantSerializer, request.data))
        tenant = services.open_tenant(actor=self.actor, now=self.now, **new)
        return Response(serializers.TenantSerializer(tenant).data, status=201)


class TenantView(ActorView):
    rules = {"GET": Permission.SEE_TENANT, "DELETE": Permission.MANAGE_TENANT}
    dangerous = WRITES

    @extend_schema(responses=serializers.TenantSerializer)
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        return Response(serializers.TenantSerializer(tenant).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        self.require(may_remove_tenant(self.actor, tenant.pk, tenant.parent_id))
        remove_tenant(actor=self.actor, tenant=tenant, now=self.now)
        return Response(status=204)


class ChildrenView(ActorView):
    """The teams of an organisation, the projects of a team. A new one is served as its parent is."""

    rules = {"GET": Permission.SEE_TENANT, "POST": Permission.MANAGE_TENANT}

    @extend_schema(responses=serializers.TenantSerializer(many=True))
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        return self.paged(list_children(actor=self.actor, tenant_id=tenant.pk), serializers.TenantSerializer)

    @extend_schema(request=serializers.NewChildSerializer, responses={201: serializers.TenantSerializer})
    def post(self, request: Request, tenant_id: UUID) -> Response:
        parent = get_tenant(actor=self.actor, tenant_id=tenant_id)
        self.require(may_manage_tenant(self.actor, parent.pk))
        name = parsed(serializers.NewChildSerializer, request.data)["name"]
        tenant = services.open_tenant_below(actor=self.actor, parent=parent, name=name, now=self.now)
        return Response(serializers.TenantSerializer(tenant).data, status=201)


class PolicyView(ActorView):
    rules = {"GET": Permission.SEE_TENANT, "PUT": Permission.OPERATE}

    @extend_schema(responses=serializers.PolicySerializer)
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        return Response(serializers.PolicySerializer(selectors.get_policy(tenant.pk)).data)

    @extend_schema(request=serializers.NewPolicySerializer, responses=serializers.PolicySerializer)
    def put(self, request: Request, tenant_id: UUID) -> Response:
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        new = _with_rows(parsed(serializers.NewPolicySerializer, request.data))
        policy = services.set_tenant_policy(actor=self.actor, tenant=tenant, now=self.now, **new)
        return Response(serializers.PolicySerializer(policy).data)


def _with_rows(new: dict[str, Any]) -> dict[str, Any]:
    return new | {
        "service_class": selectors.get_service_class(new["service_class"]),
        "slo_profile": selectors.get_slo_profile(new["slo_profile"]),
    }


class ServiceClassesView(OperatorView):
    @extend_schema(responses=serializers.ServiceClassSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_service_classes(), serializers.ServiceClassSerializer)

    @extend_schema(request=serializers.ServiceClassSerializer, responses={201: serializers.ServiceClassSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.ServiceClassSerializer, request.data)
        row = services.create_service_class(actor=self.actor, now=self.now, **new)
        return Response(serializers.ServiceClassSerializer(row).data, status=201)


class SLOProfilesView(OperatorView):
    @extend_schema(responses=serializers.SLOProfileSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_slo_profiles(), serializers.SLOProfileSerializer)

    @extend_schema(request=serializers.SLOProfileSerializer, responses={201: serializers.SLOProfileSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.SLOProfileSerializer, request.data)
        row = services.create_slo_profile(actor=self.actor, now=self.now, **new)
        return Response(serializers.SLOProfileSerializer(row).data, status=201)

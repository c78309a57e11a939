from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.limits import serializers
from apps.limits.models import Limit
from apps.limits.policies import may_change, may_set_for
from apps.limits.selectors import limits as selectors
from apps.limits.selectors.use import list_use
from apps.limits.services import limits as services
from apps.limits.services.raises import ask_for_raise, decide_raise
from apps.tenants.access import ActorView, OperatorView
from apps.tenants.matrix import Permission
from apps.tenants.selectors import get_tenant


class TenantLimitsView(ActorView):
    """Those that hold for a tenant, with what is used of them. A new one replaces one for the same."""

    tags_created = True
    rules = {"GET": Permission.SEE_TENANT, "POST": Permission.MANAGE_TENANT}

    @extend_schema(responses=serializers.LimitUsesSerializer)
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        limits = list(selectors.list_limits(actor=self.actor, tenant_id=tenant_id))
        use = list_use(limits=limits, tenant_id=tenant_id, now=self.now)
        return Response(serializers.LimitUsesSerializer({"results": use}).data)

    @extend_schema(request=serializers.NewLimitSerializer, responses={201: serializers.LimitSerializer})
    def post(self, request: Request, tenant_id: UUID) -> Response:
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        self.require(may_set_for(self.actor, tenant.pk))
        new = parsed(serializers.NewLimitSerializer, request.data)
        limit = services.set_limit(actor=self.actor, tenant=tenant, now=self.now, **new)
        return Response(serializers.LimitSerializer(limit).data, status=201)


class DefaultLimitsView(OperatorView):
    """Of every tenant that has none of the kind of its own."""

    tags_created = True

    @extend_schema(responses=serializers.LimitSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_default_limits(), serializers.LimitSerializer)

    @extend_schema(request=serializers.NewLimitSerializer, responses={201: serializers.LimitSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewLimitSerializer, request.data)
        limit = services.set_limit(actor=self.actor, tenant=None, now=self.now, **new)
        return Response(serializers.LimitSerializer(limit).data, status=201)


class _OneLimit(ActorView):
    def subject(self) -> Response:
        limit = selectors.get_limit(actor=self.actor, limit_id=self.kwargs["limit_id"])
        return Response(serializers.LimitSerializer(limit).data)

    def limit(self, limit_id: UUID) -> Limit:
        """To be changed."""
        limit = selectors.get_limit(actor=self.actor, limit_id=limit_id)
        self.require(may_change(self.actor, limit.setter, limit.tenant_id))
        return limit


class LimitView(_OneLimit):
    rules = {"GET": Permission.SEE_TENANT, "PUT": Permission.MANAGE_TENANT, "DELETE": Permission.MANAGE_TENANT}

    @extend_schema(responses=serializers.LimitSerializer)
    def get(self, request: Request, limit_id: UUID) -> Response:  # noqa: ARG002
        return self.subject()

    @extend_schema(request=serializers.LimitFieldsSerializer, responses=serializers.LimitSerializer)
    def put(self, request: Request, limit_id: UUID) -> Response:
        limit = self.limit(limit_id)
        fields = parsed(serializers.LimitFieldsSerializer, request.data)
        services.change_limit(actor=self.actor, limit=limit, now=self.now, **fields)
        return Response(serializers.LimitSerializer(limit).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, limit_id: UUID) -> Response:  # noqa: ARG002
        services.remove_limit(actor=self.actor, limit=self.limit(limit_id), now=self.now)
        return Response(status=204)


class LimitResetView(_OneLimit):
    """Forgets what was used so far."""

    rules = {"POST": Permission.MANAGE_TENANT}

    @extend_schema(request=None, responses=serializers.LimitSerializer)
    def post(self, request: Request, limit_id: UUID) -> Response:  # noqa: ARG002
        limit = services.reset_limit(actor=self.actor, limit=self.limit(limit_id), now=self.now)
        return Response(serializers.LimitSerializer(limit).data)


class LimitRaiseView(_OneLimit):
    """More until a time."""

    rules = {"POST": Permission.OPERATE, "DELETE": Permission.OPERATE}

    @extend_schema(request=serializers.RaisedAmountSerializer, responses=serializers.LimitSerializer)
    def post(self, request: Request, limit_id: UUID) -> Response:
        limit = self.limit(limit_id)
        wanted = parsed(serializers.RaisedAmountSerializer, request.data)
        services.raise_limit(actor=self.actor, limit=limit, now=self.now, **wanted)
        return Response(serializers.LimitSerializer(limit).data)

    @extend_schema(responses={200: serializers.LimitSerializer})
    def delete(self, request: Request, limit_id: UUID) -> Response:  # noqa: ARG002
        limit = services.end_raise(actor=self.actor, limit=self.limit(limit_id), now=self.now)
        return Response(serializers.LimitSerializer(limit).data)


class BlocksView(ActorView):
    tags_created = True
    rules = {"GET": Permission.SEE_TENANT, "POST": Permission.MANAGE_TENANT}

    @extend_schema(responses=serializers.BlockSerializer(many=True))
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_blocks(actor=self.actor, tenant_id=tenant_id), serializers.BlockSerializer)

    @extend_schema(request=serializers.NewBlockSerializer, responses={201: serializers.BlockSerializer})
    def post(self, request: Request, tenant_id: UUID) -> Response:
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        self.require(may_set_for(self.actor, tenant.pk))
        new = parsed(serializers.NewBlockSerializer, request.data)
        row = services.block(actor=self.actor, tenant=tenant, now=self.now, **new)
        return Response(serializers.BlockSerializer(row).data, status=201)


class BlockView(ActorView):
    rules = {"GET": Permission.SEE_TENANT, "DELETE": Permission.MANAGE_TENANT}

    @extend_schema(responses=serializers.BlockSerializer)
    def get(self, request: Request, block_id: UUID) -> Response:  # noqa: ARG002
        block = selectors.get_block(actor=self.actor, block_id=block_id)
        return Response(serializers.BlockSerializer(block).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, block_id: UUID) -> Response:  # noqa: ARG002
        block = selectors.get_block(actor=self.actor, block_id=block_id)
        self.require(may_change(self.actor, block.setter, block.tenant_id))
        services.lift_block(actor=self.actor, block=block, now=self.now)
        return Response(status=204)


class LimitSettingsView(ActorView):
    rules = {"GET": Permission.SEE_TENANT, "PUT": Permission.OPERATE}

    @extend_schema(responses=serializers.LimitSettingsSerializer)
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        return Response(serializers.LimitSettingsSerializer(selectors.get_settings(tenant.pk)).data)

    @extend_schema(request=serializers.NewLimitSettingsSerializer, responses=serializers.LimitSettingsSerializer)
    def put(self, request: Request, tenant_id: UUID) -> Response:
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        new = parsed(serializers.NewLimitSettingsSerializer, request.data)
        settings = services.set_limit_settings(actor=self.actor, tenant=tenant, now=self.now, **new)
        return Response(serializers.LimitSettingsSerializer(settings).data)


class LimitEventsView(ActorView):
    rules = {"GET": Permission.SEE_TENANT}

    @extend_schema(responses=serializers.LimitEventSerializer(many=True))
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        return self.paged(
            selectors.list_events(actor=self.actor, tenant_id=tenant_id), serializers.LimitEventSerializer
        )


class RaiseRequestsView(ActorView):
    rules = {"GET": Permission.SEE_TENANT, "POST": Permission.MANAGE_TENANT}

    @extend_schema(responses=serializers.RaiseRequestSerializer(many=True))
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        return self.paged(
            selectors.list_raise_requests(actor=self.actor, tenant_id=tenant_id), serializers.RaiseRequestSerializer
        )

    @extend_schema(request=serializers.NewRaiseRequestSerializer, responses={201: serializers.RaiseRequestSerializer})
    def post(self, request: Request, tenant_id: UUID) -> Response:
        tenant = get_tenant(actor=self.actor, tenant_id=tenant_id)
        self.require(may_set_for(self.actor, tenant.pk))
        new = parsed(serializers.NewRaiseRequestSerializer, request.data)
        limit = selectors.get_limit_of(actor=self.actor, tenant_id=tenant.pk, limit_id=new.pop("limit_id"))
        asked = ask_for_raise(actor=self.actor, tenant=tenant, limit=limit, now=self.now, **new)
        return Response(serializers.RaiseRequestSerializer(asked).data, status=201)


class RaiseDecisionView(ActorView):
    rules = {"POST": Permission.OPERATE}

    @extend_schema(request=serializers.DecisionSerializer, responses=serializers.RaiseRequestSerializer)
    def post(self, request: Request, request_id: UUID) -> Response:
        asked = selectors.get_raise_request(actor=self.actor, request_id=request_id)
        decision = parsed(serializers.DecisionSerializer, request.data)
        decided = decide_raise(actor=self.actor, request=asked, now=self.now, **decision)
        return Response(serializers.RaiseRequestSerializer(decided).data)

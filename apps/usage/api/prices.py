from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.registry.selectors import get_model, get_version
from apps.tenants.access import ActorView
from apps.tenants.matrix import Permission
from apps.tenants.selectors import get_tenant
from apps.usage.selectors.prices import list_discounts, list_prices
from apps.usage.selectors.reratings import get_rerating, list_reratings
from apps.usage.serializers import prices as serializers
from apps.usage.services.prices import PRICE_FIELDS, set_discount, set_price
from apps.usage.services.rerating import apply_rerating, cancel_rerating, start_rerating
from workers.contracts.snapshot import Price


class FinanceView(ActorView):
    """Only finance and operators get past the door."""

    rules = {"*": Permission.SET_PRICES}


class PricesView(FinanceView):
    @extend_schema(responses=serializers.PriceSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(list_prices(), serializers.PriceSerializer)

    @extend_schema(request=serializers.NewPriceSerializer, responses={201: serializers.PriceSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewPriceSerializer, request.data)
        entry = set_price(
            actor=self.actor,
            version=get_version(new["version_id"]) if new["version_id"] else None,
            model=get_model(new["model_id"]) if new["model_id"] else None,
            price=Price(**{name: new[name] for name in PRICE_FIELDS}),
            batch_discount_bp=new["batch_discount_bp"],
            effective_from=new.get("effective_from", self.now),
            now=self.now,
        )
        return Response(serializers.PriceSerializer(entry).data, status=201)


class DiscountsView(FinanceView):
    @extend_schema(responses=serializers.DiscountSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(list_discounts(actor=self.actor), serializers.DiscountSerializer)

    @extend_schema(request=serializers.NewDiscountSerializer, responses={201: serializers.DiscountSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewDiscountSerializer, request.data)
        entry = set_discount(
            actor=self.actor,
            tenant=get_tenant(actor=self.actor, tenant_id=new["tenant_id"]),
            model=get_model(new["model_id"]) if new["model_id"] else None,
            discount_bp=new["discount_bp"],
            effective_from=new.get("effective_from", self.now),
            now=self.now,
        )
        return Response(serializers.DiscountSerializer(entry).data, status=201)


class ReratingsView(FinanceView):
    @extend_schema(responses=serializers.ReratingSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(list_reratings(), serializers.ReratingSerializer)

    @extend_schema(request=serializers.NewReratingSerializer, responses={202: serializers.ReratingSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewReratingSerializer, request.data)
        row = start_rerating(
            actor=self.actor, start=new["start"], end=new.get("end", self.now), reason=new["reason"], now=self.now
        )
        return Response(serializers.ReratingSerializer(row).data, status=202)


class ReratingView(FinanceView):
    @extend_schema(responses=serializers.ReratingSerializer)
    def get(self, request: Request, rerating_id: UUID) -> Response:  # noqa: ARG002
        return Response(serializers.ReratingSerializer(get_rerating(rerating_id)).data)

    @extend_schema(
        operation_id="reratings_decide",
        request=serializers.ReratingActionSerializer,
        responses={202: serializers.ReratingSerializer},
    )
    def post(self, request: Request, rerating_id: UUID) -> Response:
        action = parsed(serializers.ReratingActionSerializer, request.data)["action"]
        decide = apply_rerating if action == "apply" else cancel_rerating
        row = decide(actor=self.actor, rerating=get_rerating(rerating_id), now=self.now)
        return Response(serializers.ReratingSerializer(row).data, status=202)

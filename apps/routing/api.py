from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.errors import InvalidInputError
from apps.common.parsing import parsed
from apps.routing import serializers
from apps.routing.selectors.routes import get_route, list_public_models, list_routes
from apps.routing.selectors.status import get_snapshot_status
from apps.routing.services.routes import create_route, delete_route, set_canary_weights
from apps.telemetry.selectors.frames import get_overview
from apps.tenants.access import ActorView, OperatorView
from apps.tenants.matrix import Permission


class RoutesView(OperatorView):
    @extend_schema(responses=serializers.RouteSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(list_routes(), serializers.RouteSerializer)

    @extend_schema(request=serializers.NewRouteSerializer, responses={201: serializers.RouteSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewRouteSerializer, request.data)
        route = create_route(
            actor=self.actor,
            public_name=new["public_name"],
            weights=_weights(new["targets"]),
            alternatives=new.get("alternatives", ()),
            now=self.now,
        )
        return Response(serializers.RouteSerializer(get_route(route.pk)).data, status=201)


class RouteView(OperatorView):
    @extend_schema(responses=serializers.RouteSerializer)
    def get(self, request: Request, route_id: UUID) -> Response:  # noqa: ARG002
        return Response(serializers.RouteSerializer(get_route(route_id)).data)

    @extend_schema(request=serializers.WeightsSerializer, responses=serializers.RouteSerializer)
    def patch(self, request: Request, route_id: UUID) -> Response:
        wanted = parsed(serializers.WeightsSerializer, request.data)
        route = set_canary_weights(
            actor=self.actor,
            route_id=get_route(route_id).pk,
            weights=_weights(wanted["targets"]),
            alternatives=wanted.get("alternatives"),
            now=self.now,
        )
        return Response(serializers.RouteSerializer(get_route(route.pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, route_id: UUID) -> Response:  # noqa: ARG002
        delete_route(actor=self.actor, route=get_route(route_id), now=self.now)
        return Response(status=204)


class PublicModelsView(ActorView):
    """What anyone signed in may ask a gateway for."""

    rules = {"GET": Permission.SIGNED_IN}
    pagination_class = None  # type: ignore[assignment]  # a short list, sent whole; the schema says so

    @extend_schema(responses=serializers.PublicModelSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return Response([{"name": name, "task": task} for name, task in list_public_models()])


class SnapshotView(OperatorView):
    @extend_schema(responses=serializers.SnapshotStatusSerializer)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return Response(serializers.SnapshotStatusSerializer(get_snapshot_status()).data)


class OverviewView(OperatorView):
    @extend_schema(responses=serializers.OverviewSerializer)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        overview = {"fleet": get_overview(now_s=self.now.timestamp()), "snapshot": get_snapshot_status()}
        return Response(serializers.OverviewSerializer(overview).data)


def _weights(targets: list[dict[str, Any]]) -> dict[UUID, int]:
    weights = {target["version_id"]: target["weight"] for target in targets}
    if len(weights) != len(targets):
        raise InvalidInputError("a version is listed twice", fields={"targets": "a version is listed twice"})
    return weights

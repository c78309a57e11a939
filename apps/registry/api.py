from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.registry import selectors, serializers, services
from apps.tenants.access import OperatorView
from apps.tenants.matrix import Permission


class CatalogueView(OperatorView):
    """Who prices models reads which there are."""

    also = {"GET": Permission.SET_PRICES}


class ModelsView(CatalogueView):
    @extend_schema(responses=serializers.ModelSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_models(), serializers.ModelSerializer)

    @extend_schema(request=serializers.NewModelSerializer, responses={201: serializers.ModelSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewModelSerializer, request.data)
        model = services.create_model(actor=self.actor, now=self.now, **new)
        return Response(serializers.ModelSerializer(model).data, status=201)


class ModelView(CatalogueView):
    @extend_schema(responses=serializers.ModelSerializer)
    def get(self, request: Request, model_id: UUID) -> Response:  # noqa: ARG002
        return Response(serializers.ModelSerializer(selectors.get_model(model_id)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, model_id: UUID) -> Response:  # noqa: ARG002
        services.delete_model(actor=self.actor, model=selectors.get_model(model_id), now=self.now)
        return Response(status=204)


class VersionsView(CatalogueView):
    @extend_schema(responses=serializers.VersionSerializer(many=True))
    def get(self, request: Request, model_id: UUID) -> Response:  # noqa: ARG002
        model = selectors.get_model(model_id)
        return self.paged(selectors.list_versions(model_id=model.pk), serializers.VersionSerializer)

    @extend_schema(request=serializers.NewVersionSerializer, responses={201: serializers.VersionSerializer})
    def post(self, request: Request, model_id: UUID) -> Response:
        model = selectors.get_model(model_id)
        new = parsed(serializers.NewVersionSerializer, request.data)
        if new["fetch"]:
            new = _read(new) | new
        version = services.create_version(actor=self.actor, model=model, now=self.now, **new)
        return Response(serializers.VersionSerializer(version).data, status=201)


class ModelFactsView(OperatorView):
    """What the hub says of a repository, or an object store of a prefix, for a version that is to be made."""

    has_own_filters = True

    @extend_schema(parameters=[serializers.FactsQuerySerializer], responses=serializers.FactsSerializer)
    def get(self, request: Request) -> Response:
        asked = parsed(serializers.FactsQuerySerializer, request.query_params)
        return Response(serializers.FactsSerializer(services.fetch_facts(**asked)).data)


class AllVersionsView(CatalogueView):
    @extend_schema(operation_id="all_versions_list", responses=serializers.VersionSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_versions(), serializers.VersionSerializer)


class VersionView(CatalogueView):
    @extend_schema(responses=serializers.VersionSerializer)
    def get(self, request: Request, version_id: UUID) -> Response:  # noqa: ARG002
        return Response(serializers.VersionSerializer(selectors.get_version(version_id)).data)

    @extend_schema(request=serializers.VersionDescriptionSerializer, responses=serializers.VersionSerializer)
    def patch(self, request: Request, version_id: UUID) -> Response:
        """What an engine loads never changes: for that there is another version."""
        version = selectors.get_version(version_id)
        wanted = parsed(serializers.VersionDescriptionSerializer, request.data)
        services.describe_version(actor=self.actor, version=version, now=self.now, **wanted)
        return Response(serializers.VersionSerializer(version).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, version_id: UUID) -> Response:  # noqa: ARG002
        services.delete_version(actor=self.actor, version=selectors.get_version(version_id), now=self.now)
        return Response(status=204)


def _read(new: dict[str, Any]) -> dict[str, Any]:
    """What was given wins."""
    return services.fetch_facts(source=new["source"], revision=new.get("revision", "")).pinned

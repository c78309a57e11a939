from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.deployments.selectors import get_deployment
from apps.placement import serializers
from apps.placement.services import preview as services
from apps.registry.selectors import get_version
from apps.tenants.access import OperatorView


class PreviewView(OperatorView):
    """The plan for a deployment that does not exist yet; nothing is changed by asking."""

    @extend_schema(request=serializers.PreviewRequestSerializer, responses=serializers.PreviewSerializer)
    def post(self, request: Request) -> Response:
        asked = parsed(serializers.PreviewRequestSerializer, request.data)
        asked.pop("name", None)
        version = get_version(asked.pop("version_id"))
        return Response(shown(services.preview_deployment(version=version, now=self.now, **asked)))


class DeploymentPlacementView(OperatorView):
    """Where one more replica of it would go, or why nowhere, and what would help."""

    @extend_schema(responses=serializers.PreviewSerializer)
    def get(self, request: Request, deployment_id: UUID) -> Response:  # noqa: ARG002
        return Response(shown(services.preview_replicas(get_deployment(deployment_id), count=1)))


class RepackingView(OperatorView):
    @extend_schema(responses=serializers.RepackingSerializer)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return Response(serializers.RepackingSerializer(services.propose_repacking()).data)


def shown(preview: services.Preview) -> dict[str, Any]:
    names = {node.node_id: node.name for node in preview.nodes}
    assignments = [
        {"stages": each.stages, "node_names": [names[pk] for pk in each.node_ids], "usd_per_h": each.usd_per_h}
        for each in preview.assignments
    ]
    found = vars(preview) | {"assignments": assignments, "unplaced_count": len(preview.unplaced)}
    return dict(serializers.PreviewSerializer(found).data)

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.deployments import selectors, serializers
from apps.deployments.services import deployments as services
from apps.registry.selectors import get_version
from apps.tenants.access import OperatorView


class DeploymentsView(OperatorView):
    @extend_schema(responses=serializers.DeploymentSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_deployments(), serializers.DeploymentSerializer)

    @extend_schema(request=serializers.NewDeploymentSerializer, responses={201: serializers.DeploymentSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewDeploymentSerializer, request.data)
        version = get_version(new.pop("version_id"))
        deployment = services.create_deployment(actor=self.actor, version=version, now=self.now, **new)
        return Response(serializers.DeploymentSerializer(deployment).data, status=201)


class DeploymentView(OperatorView):
    reported = frozenset({"ready_count"})

    @extend_schema(responses=serializers.DeploymentSerializer)
    def get(self, request: Request, deployment_id: UUID) -> Response:  # noqa: ARG002
        return Response(serializers.DeploymentSerializer(selectors.get_deployment(deployment_id)).data)

    @extend_schema(request=serializers.DeploymentChangeSerializer, responses=serializers.DeploymentSerializer)
    def patch(self, request: Request, deployment_id: UUID) -> Response:
        deployment = selectors.get_deployment(deployment_id)
        change = services.Change(**parsed(serializers.DeploymentChangeSerializer, request.data))
        services.change_deployment(actor=self.actor, deployment=deployment, change=change, now=self.now)
        return Response(serializers.DeploymentSerializer(deployment).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, deployment_id: UUID) -> Response:  # noqa: ARG002
        deployment = selectors.get_deployment(deployment_id)
        services.delete_deployment(actor=self.actor, deployment=deployment, now=self.now)
        return Response(status=204)


class ReplicasView(OperatorView):
    @extend_schema(responses=serializers.ReplicaSerializer(many=True))
    def get(self, request: Request, deployment_id: UUID) -> Response:  # noqa: ARG002
        deployment = selectors.get_deployment(deployment_id)
        replicas = selectors.list_replicas(deployment_id=deployment.pk)
        return self.paged(replicas, serializers.ReplicaSerializer)


class RestartView(OperatorView):
    @extend_schema(request=None, responses={202: serializers.ReplicaSerializer})
    def post(self, request: Request, replica_id: UUID) -> Response:  # noqa: ARG002
        replica = selectors.get_replica(replica_id)
        services.restart_replica(actor=self.actor, replica=replica, now=self.now)
        return Response(serializers.ReplicaSerializer(replica).data, status=202)


class DrainReplicaView(OperatorView):
    @extend_schema(request=None, responses={202: serializers.ReplicaSerializer})
    def post(self, request: Request, replica_id: UUID) -> Response:  # noqa: ARG002
        replica = selectors.get_replica(replica_id)
        services.drain_replica(actor=self.actor, replica=replica, now=self.now)
        return Response(serializers.ReplicaSerializer(replica).data, status=202)


class ReplicaEventsView(OperatorView):
    @extend_schema(responses=serializers.ReplicaEventSerializer(many=True))
    def get(self, request: Request, replica_id: UUID) -> Response:  # noqa: ARG002
        replica = selectors.get_replica(replica_id)
        return self.paged(replica.events.all(), serializers.ReplicaEventSerializer)

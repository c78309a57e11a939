from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.pagination import NewestFirst
from apps.common.parsing import parsed
from apps.deployments import selectors, serializers
from apps.deployments.services import deployments as services
from apps.deployments.services import rollouts
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
        shown = selectors.get_deployment(deployment.pk)
        return Response(serializers.DeploymentSerializer(shown).data, status=201)


class OneDeploymentView(OperatorView):
    reported = frozenset({"ready_count", "wanted_count", "rollout"})

    def subject(self) -> Response:
        return self.shown(self.kwargs["deployment_id"])

    def shown(self, deployment_id: UUID) -> Response:
        return Response(serializers.DeploymentSerializer(selectors.get_deployment(deployment_id)).data)


class DeploymentView(OneDeploymentView):
    @extend_schema(responses=serializers.DeploymentSerializer)
    def get(self, request: Request, deployment_id: UUID) -> Response:  # noqa: ARG002
        return self.shown(deployment_id)

    @extend_schema(request=serializers.DeploymentChangeSerializer, responses=serializers.DeploymentSerializer)
    def patch(self, request: Request, deployment_id: UUID) -> Response:
        deployment = selectors.get_deployment(deployment_id)
        wanted = parsed(serializers.DeploymentChangeSerializer, request.data)
        version_id = wanted.pop("version_id", None)
        change = services.Change(version=get_version(version_id) if version_id else None, **wanted)
        services.change_deployment(actor=self.actor, deployment=deployment, change=change, now=self.now)
        return self.shown(deployment_id)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, deployment_id: UUID) -> Response:  # noqa: ARG002
        deployment = selectors.get_deployment(deployment_id)
        services.delete_deployment(actor=self.actor, deployment=deployment, now=self.now)
        return Response(status=204)


class PauseView(OneDeploymentView):
    """Replicas stay what they are until it is taken back by DELETE."""

    @extend_schema(request=None, responses=serializers.DeploymentSerializer)
    def post(self, request: Request, deployment_id: UUID) -> Response:  # noqa: ARG002
        return self._set(deployment_id, is_paused=True)

    @extend_schema(request=None, responses={200: serializers.DeploymentSerializer})
    def delete(self, request: Request, deployment_id: UUID) -> Response:  # noqa: ARG002
        return self._set(deployment_id, is_paused=False)

    def _set(self, deployment_id: UUID, *, is_paused: bool) -> Response:
        deployment = selectors.get_deployment(deployment_id)
        rollouts.pause_rollout(actor=self.actor, deployment=deployment, is_paused=is_paused, now=self.now)
        return self.shown(deployment_id)


class UndoView(OneDeploymentView):
    @extend_schema(request=serializers.UndoSerializer, responses={202: serializers.DeploymentSerializer})
    def post(self, request: Request, deployment_id: UUID) -> Response:
        deployment = selectors.get_deployment(deployment_id)
        asked = parsed(serializers.UndoSerializer, request.data)
        rollouts.undo_rollout(actor=self.actor, deployment=deployment, now=self.now, **asked)
        return Response(self.shown(deployment_id).data, status=202)


class HighestNumberFirst(NewestFirst):
    ordering = "-number"


class RevisionsView(OperatorView):
    pagination_class = HighestNumberFirst

    @extend_schema(responses=serializers.RevisionSerializer(many=True))
    def get(self, request: Request, deployment_id: UUID) -> Response:  # noqa: ARG002
        deployment = selectors.get_deployment(deployment_id)
        return self.paged(selectors.list_revisions(deployment.pk), serializers.RevisionSerializer)


class ReplicasView(OperatorView):
    @extend_schema(responses=serializers.ReplicaSerializer(many=True))
    def get(self, request: Request, deployment_id: UUID) -> Response:  # noqa: ARG002
        deployment = selectors.get_deployment(deployment_id)
        replicas = selectors.list_replicas(deployment_id=deployment.pk)
        return self.paged(replicas, serializers.ReplicaSerializer)


class OneReplicaView(OperatorView):
    reported = serializers.REPORTED_OF_REPLICAS

    def subject(self) -> Response:
        return self.shown(self.kwargs["replica_id"])

    def shown(self, replica_id: UUID) -> Response:
        return Response(serializers.ReplicaSerializer(selectors.get_replica(replica_id)).data)


class RestartView(OneReplicaView):
    @extend_schema(request=None, responses={202: serializers.ReplicaSerializer})
    def post(self, request: Request, replica_id: UUID) -> Response:  # noqa: ARG002
        replica = selectors.get_replica(replica_id)
        services.restart_replica(actor=self.actor, replica=replica, now=self.now)
        return Response(serializers.ReplicaSerializer(replica).data, status=202)


class DrainReplicaView(OneReplicaView):
    @extend_schema(request=None, responses={202: serializers.ReplicaSerializer})
    def post(self, request: Request, replica_id: UUID) -> Response:  # noqa: ARG002
        replica = selectors.get_replica(replica_id)
        services.drain_replica(actor=self.actor, replica=replica, now=self.now)
        return Response(serializers.ReplicaSerializer(replica).data, status=202)

    @extend_schema(request=None, responses={202: serializers.ReplicaSerializer})
    def delete(self, request: Request, replica_id: UUID) -> Response:  # noqa: ARG002
        replica = selectors.get_replica(replica_id)
        services.cancel_drain(actor=self.actor, replica=replica, now=self.now)
        return Response(serializers.ReplicaSerializer(replica).data, status=202)


class ReplicaEventsView(OperatorView):
    @extend_schema(responses=serializers.ReplicaEventSerializer(many=True))
    def get(self, request: Request, replica_id: UUID) -> Response:  # noqa: ARG002
        replica = selectors.get_replica(replica_id)
        return self.paged(replica.events.all(), serializers.ReplicaEventSerializer)


class AllReplicasView(OperatorView):
    @extend_schema(operation_id="all_replicas_list", responses=serializers.ReplicaSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_replicas(), serializers.ReplicaSerializer)


class ReplicaView(OneReplicaView):
    @extend_schema(responses=serializers.ReplicaSerializer)
    def get(self, request: Request, replica_id: UUID) -> Response:  # noqa: ARG002
        return self.shown(replica_id)


class EventsView(OperatorView):
    """Of every replica."""

    @extend_schema(responses=serializers.EventSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_all_events(), serializers.EventSerializer)

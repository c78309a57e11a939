from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.fleet import selectors, serializers
from apps.fleet.services import nodes as services
from apps.tenants.access import OperatorView


class NodesView(OperatorView):
    @extend_schema(responses=serializers.NodeSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_nodes(), serializers.NodeSerializer)

    @extend_schema(request=serializers.NewNodeSerializer, responses={201: serializers.ShownOnceNodeSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewNodeSerializer, request.data)
        node, token = services.join_node(actor=self.actor, now=self.now, **new)
        return Response(serializers.NodeSerializer(node).data | {"agent_token": token}, status=201)


class NodeView(OperatorView):
    @extend_schema(responses=serializers.NodeSerializer)
    def get(self, request: Request, node_id: UUID) -> Response:  # noqa: ARG002
        return Response(serializers.NodeSerializer(selectors.get_node(node_id)).data)

    @extend_schema(request=serializers.CordonSerializer, responses=serializers.NodeSerializer)
    def patch(self, request: Request, node_id: UUID) -> Response:
        node = selectors.get_node(node_id)
        change = parsed(serializers.CordonSerializer, request.data)
        services.set_cordon(actor=self.actor, node=node, now=self.now, **change)
        return Response(serializers.NodeSerializer(node).data)


class AgentTokenView(OperatorView):
    @extend_schema(request=None, responses={201: serializers.ShownOnceNodeSerializer})
    def post(self, request: Request, node_id: UUID) -> Response:  # noqa: ARG002
        node = selectors.get_node(node_id)
        token = services.reissue_agent_token(actor=self.actor, node=node, now=self.now)
        return Response(serializers.NodeSerializer(node).data | {"agent_token": token}, status=201)

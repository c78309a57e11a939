from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.common.parsing import parsed
from apps.fleet import selectors, serializers
from apps.fleet.policies.joining import lines_for
from apps.fleet.services import joining
from apps.fleet.services import nodes as services
from apps.tenants.access import OperatorView
from apps.tenants.matrix import Permission


class NodesView(OperatorView):
    @extend_schema(responses=serializers.NodeSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_nodes(), serializers.NodeSerializer)

    @extend_schema(request=serializers.NewNodeSerializer, responses={201: serializers.ShownOnceNodeSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewNodeSerializer, request.data)
        node, token = services.join_node(actor=self.actor, now=self.now, **new)
        return Response(serializers.NodeSerializer(node).data | {"agent_token": token}, status=201)


class OneNodeView(OperatorView):
    reported = serializers.REPORTED_OF_NODES

    def subject(self) -> Response:
        return Response(serializers.NodeSerializer(selectors.get_node(self.kwargs["node_id"])).data)


class NodeView(OneNodeView):
    @extend_schema(responses=serializers.NodeSerializer)
    def get(self, request: Request, node_id: UUID) -> Response:  # noqa: ARG002
        return self.subject()

    @extend_schema(request=serializers.NodeChangeSerializer, responses=serializers.NodeSerializer)
    def patch(self, request: Request, node_id: UUID) -> Response:
        node = selectors.get_node(node_id)
        change = parsed(serializers.NodeChangeSerializer, request.data)
        services.change_node(actor=self.actor, node=node, now=self.now, **change)
        return Response(serializers.NodeSerializer(node).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, node_id: UUID) -> Response:  # noqa: ARG002
        services.remove_node(actor=self.actor, node=selectors.get_node(node_id), now=self.now)
        return Response(status=204)


class AgentTokenView(OneNodeView):
    @extend_schema(request=None, responses={201: serializers.ShownOnceNodeSerializer})
    def post(self, request: Request, node_id: UUID) -> Response:  # noqa: ARG002
        node = selectors.get_node(node_id)
        token = services.reissue_agent_token(actor=self.actor, node=node, now=self.now)
        return Response(serializers.NodeSerializer(node).data | {"agent_token": token}, status=201)


class JoinTokensView(OperatorView):
    @extend_schema(responses=serializers.JoinTokenSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_join_tokens(), serializers.JoinTokenSerializer)

    @extend_schema(
        request=serializers.NewJoinTokenSerializer, responses={201: serializers.ShownOnceJoinTokenSerializer}
    )
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewJoinTokenSerializer, request.data)
        lifetime = timedelta(seconds=new.pop("lifetime_s"))
        token, text = joining.create_join_token(actor=self.actor, now=self.now, lifetime=lifetime, **new)
        shown = lines_for(text, web_url=settings.WEB_URL)
        return Response(serializers.JoinTokenSerializer(token).data | {"token": text} | shown, status=201)


class JoinTokenView(OperatorView):
    @extend_schema(responses=serializers.JoinTokenSerializer)
    def get(self, request: Request, token_id: UUID) -> Response:  # noqa: ARG002
        return Response(serializers.JoinTokenSerializer(selectors.get_join_token(token_id)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, token_id: UUID) -> Response:  # noqa: ARG002
        joining.revoke_join_token(actor=self.actor, token=selectors.get_join_token(token_id), now=self.now)
        return Response(status=204)


class JoinView(APIView):
    """The token is the credential: whoever has it may join one machine."""

    authentication_classes = ()
    permission_classes = ()
    rules = {"POST": Permission.OPEN}

    @extend_schema(request=serializers.JoinSerializer, responses={201: serializers.JoinedSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.JoinSerializer, request.data)
        node, agent_token = joining.redeem_join_token(text=new.pop("token"), now=timezone.now(), **new)
        return Response({"node_id": str(node.pk), "agent_token": agent_token}, status=201)

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.tenants import selectors, serializers, services
from apps.tenants.access import WRITES, ActorView
from apps.tenants.matrix import Permission


class UsersView(ActorView):
    rules = {"*": Permission.MANAGE_USERS}
    dangerous = WRITES

    @extend_schema(responses=serializers.UserSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_users(), serializers.UserSerializer)

    @extend_schema(request=serializers.NewUserSerializer, responses={201: serializers.UserSerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewUserSerializer, request.data)
        user = services.create_user(actor=self.actor, now=self.now, **new)
        return Response(serializers.UserSerializer(user).data, status=201)


class UserView(ActorView):
    """What is left out of a change stays as it is."""

    rules = {"*": Permission.MANAGE_USERS}
    dangerous = WRITES

    @extend_schema(responses=serializers.UserSerializer)
    def get(self, request: Request, user_id: UUID) -> Response:  # noqa: ARG002
        return Response(serializers.UserSerializer(selectors.get_user_by_id(user_id)).data)

    @extend_schema(request=serializers.UserChangeSerializer, responses=serializers.UserSerializer)
    def patch(self, request: Request, user_id: UUID) -> Response:
        user = selectors.get_user_by_id(user_id)
        change = parsed(serializers.UserChangeSerializer, request.data)
        services.change_access(actor=self.actor, user=user, now=self.now, **change)
        return Response(serializers.UserSerializer(user).data)

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.identity import selectors, serializers
from apps.identity.services.second_factor import remove_second_factor
from apps.identity.services.sessions import end_session, end_sessions_of
from apps.tenants.access import WRITES, ActorView
from apps.tenants.matrix import Permission
from apps.tenants.selectors import get_user, get_user_by_id


class SessionsView(ActorView):
    """Browsers that are signed in as the actor; nobody sees another's."""

    rules = {"*": Permission.SIGNED_IN}

    @extend_schema(responses=serializers.SessionSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_sessions(actor=self.actor), serializers.SessionSerializer)

    @extend_schema(
        operation_id="sessions_destroy_others",
        responses={204: None},
        description="Ends all but the one that asks, if it is a browser's.",
    )
    def delete(self, request: Request) -> Response:
        me = get_user(username=self.actor.name)
        this = selectors.find_session(request.session, me.pk) if request.auth is None else None
        end_sessions_of(actor=self.actor, user=me, but=this, now=self.now)
        return Response(status=204)


class SessionView(ActorView):
    rules = {"*": Permission.SIGNED_IN}
    reported = frozenset({"seen_at"})

    @extend_schema(responses=serializers.SessionSerializer)
    def get(self, request: Request, session_id: UUID) -> Response:  # noqa: ARG002
        session = selectors.get_session(actor=self.actor, session_id=session_id)
        return Response(serializers.SessionSerializer(session).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, session_id: UUID) -> Response:  # noqa: ARG002
        session = selectors.get_session(actor=self.actor, session_id=session_id)
        end_session(actor=self.actor, session=session, now=self.now)
        return Response(status=204)


class UserSessionsView(ActorView):
    rules = {"*": Permission.MANAGE_USERS}
    dangerous = WRITES

    @extend_schema(responses=serializers.SessionSerializer(many=True))
    def get(self, request: Request, user_id: UUID) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_sessions_of(get_user_by_id(user_id)), serializers.SessionSerializer)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, user_id: UUID) -> Response:  # noqa: ARG002
        end_sessions_of(actor=self.actor, user=get_user_by_id(user_id), now=self.now)
        return Response(status=204)


class UserSecondFactorView(ActorView):
    """For who lost the device and the recovery codes."""

    rules = {"*": Permission.MANAGE_USERS}
    dangerous = WRITES

    @extend_schema(responses={204: None})
    def delete(self, request: Request, user_id: UUID) -> Response:  # noqa: ARG002
        remove_second_factor(actor=self.actor, user=get_user_by_id(user_id), now=self.now)
        return Response(status=204)

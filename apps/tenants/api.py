from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.tenants import policies, selectors, serializers, services
from apps.tenants.access import ActorView


class MeView(ActorView):
    @extend_schema(responses=serializers.MeSerializer)
    def get(self, request: Request) -> Response:  # noqa: ARG002 - the actor is all there is to it
        return Response(serializers.MeSerializer(self.actor).data)


class MembersView(ActorView):
    @extend_schema(responses=serializers.MemberSerializer(many=True))
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        members = selectors.list_members(actor=self.actor, tenant_id=tenant_id)
        self.require(policies.may_see_keys(self.actor, tenant_id))
        return self.paged(members, serializers.MemberSerializer)

    @extend_schema(request=serializers.NewMemberSerializer, responses={201: serializers.MemberSerializer})
    def post(self, request: Request, tenant_id: UUID) -> Response:
        tenant = selectors.get_tenant(actor=self.actor, tenant_id=tenant_id)
        self.require(policies.may_manage_members(self.actor, tenant_id))
        new = parsed(serializers.NewMemberSerializer, request.data)
        if "password" in new:
            member = services.invite_member(actor=self.actor, tenant=tenant, now=self.now, **new)
        else:
            self.require(policies.may_operate(self.actor))
            user = selectors.get_user(username=new["username"])
            member = services.add_member(actor=self.actor, tenant=tenant, user=user, role=new["role"], now=self.now)
        return Response(serializers.MemberSerializer(member).data, status=201)


class MemberView(ActorView):
    @extend_schema(request=serializers.RoleSerializer, responses=serializers.MemberSerializer)
    def patch(self, request: Request, tenant_id: UUID, membership_id: UUID) -> Response:
        member = selectors.get_member(actor=self.actor, tenant_id=tenant_id, membership_id=membership_id)
        self.require(policies.may_manage_members(self.actor, tenant_id))
        role = parsed(serializers.RoleSerializer, request.data)["role"]
        services.change_role(actor=self.actor, membership=member, role=role, now=self.now)
        return Response(serializers.MemberSerializer(member).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, tenant_id: UUID, membership_id: UUID) -> Response:  # noqa: ARG002
        member = selectors.get_member(actor=self.actor, tenant_id=tenant_id, membership_id=membership_id)
        self.require(policies.may_manage_members(self.actor, tenant_id))
        services.remove_member(actor=self.actor, membership=member, now=self.now)
        return Response(status=204)


class APIKeysView(ActorView):
    @extend_schema(responses=serializers.APIKeySerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return self.paged(selectors.list_keys(actor=self.actor), serializers.APIKeySerializer)

    @extend_schema(request=serializers.NewAPIKeySerializer, responses={201: serializers.ShownOnceAPIKeySerializer})
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewAPIKeySerializer, request.data)
        tenant = selectors.get_tenant(actor=self.actor, tenant_id=new["tenant_id"])
        self.require(policies.may_create_key(self.actor, tenant.pk))
        key, text = services.create_key(
            actor=self.actor,
            tenant=tenant,
            name=new["name"],
            owner_id=self.actor.user_id,
            allowed_models=new.get("models"),
            expires_at=new["expires_at"],
            now=self.now,
        )
        return Response(serializers.APIKeySerializer(key).data | {"key": text}, status=201)


class APIKeyView(ActorView):
    @extend_schema(responses=serializers.APIKeySerializer)
    def get(self, request: Request, key_id: UUID) -> Response:  # noqa: ARG002
        key = selectors.get_key(actor=self.actor, key_id=key_id)
        return Response(serializers.APIKeySerializer(key).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, key_id: UUID) -> Response:  # noqa: ARG002
        key = selectors.get_key(actor=self.actor, key_id=key_id)
        self.require(policies.may_revoke_key(self.actor, key.tenant_id, key.owner_id))
        services.revoke_key(actor=self.actor, key=key, now=self.now)
        return Response(status=204)


class PlaygroundKeysView(ActorView):
    @extend_schema(request=serializers.PlaygroundSerializer, responses={201: serializers.ShownOnceAPIKeySerializer})
    def post(self, request: Request) -> Response:
        tenant_id = parsed(serializers.PlaygroundSerializer, request.data)["tenant_id"]
        tenant = selectors.get_tenant(actor=self.actor, tenant_id=tenant_id)
        self.require(policies.may_create_key(self.actor, tenant.pk))
        key, text = services.mint_playground_key(actor=self.actor, tenant=tenant, now=self.now)
        return Response(serializers.APIKeySerializer(key).data | {"key": text}, status=201)


class ServiceTokensView(ActorView):
    """The actor's own tokens; nobody sees another's."""

    @extend_schema(responses=serializers.ServiceTokenSerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        tokens = selectors.list_service_tokens(actor=self.actor)
        return self.paged(tokens, serializers.ServiceTokenSerializer)

    @extend_schema(
        request=serializers.NewServiceTokenSerializer, responses={201: serializers.ShownOnceServiceTokenSerializer}
    )
    def post(self, request: Request) -> Response:
        new = parsed(serializers.NewServiceTokenSerializer, request.data)
        owner = selectors.get_user(username=self.actor.name)
        token, text = services.create_service_token(actor=self.actor, owner=owner, now=self.now, **new)
        return Response(serializers.ServiceTokenSerializer(token).data | {"token": text}, status=201)


class ServiceTokenView(ActorView):
    @extend_schema(responses={204: None})
    def delete(self, request: Request, token_id: UUID) -> Response:  # noqa: ARG002
        token = selectors.get_service_token(actor=self.actor, token_id=token_id)
        services.revoke_service_token(actor=self.actor, token=token, now=self.now)
        return Response(status=204)

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.tenants import policies, selectors, serializers, services
from apps.tenants.access import ActorView
from apps.tenants.matrix import Permission
from apps.tenants.models import Membership


class MeView(ActorView):
    rules = {"GET": Permission.SIGNED_IN}

    @extend_schema(responses=serializers.MeSerializer)
    def get(self, request: Request) -> Response:  # noqa: ARG002 - the actor is all there is to it
        return Response(serializers.MeSerializer(self.actor).data)


class MembersView(ActorView):
    rules = {"GET": Permission.SEE_KEYS, "POST": Permission.MANAGE_MEMBERS}

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
    rules = {"*": Permission.MANAGE_MEMBERS}

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
    rules = {"GET": Permission.SIGNED_IN, "POST": Permission.CREATE_KEYS}

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
            allowed_paths=new["paths"],
            allowed_networks=new["networks"],
            expires_at=new["expires_at"],
            now=self.now,
        )
        return Response(serializers.APIKeySerializer(key).data | {"key": text}, status=201)


class APIKeyView(ActorView):
    rules = {"GET": Permission.SEE_KEYS, "DELETE": Permission.CREATE_KEYS}

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


class RotationView(ActorView):
    rules = {"POST": Permission.CREATE_KEYS}

    @extend_schema(request=serializers.RotationSerializer, responses={201: serializers.ShownOnceAPIKeySerializer})
    def post(self, request: Request, key_id: UUID) -> Response:
        key = selectors.get_key(actor=self.actor, key_id=key_id)
        self.require(policies.may_revoke_key(self.actor, key.tenant_id, key.owner_id))
        overlap_s = parsed(serializers.RotationSerializer, request.data)["overlap_s"]
        made, text = services.rotate_key(actor=self.actor, key=key, overlap_s=overlap_s, now=self.now)
        return Response(serializers.APIKeySerializer(made).data | {"key": text}, status=201)


class PlaygroundKeysView(ActorView):
    rules = {"POST": Permission.CREATE_KEYS}

    @extend_schema(request=serializers.PlaygroundSerializer, responses={201: serializers.ShownOnceAPIKeySerializer})
    def post(self, request: Request) -> Response:
        tenant_id = parsed(serializers.PlaygroundSerializer, request.data)["tenant_id"]
        tenant = selectors.get_tenant(actor=self.actor, tenant_id=tenant_id)
        self.require(policies.may_create_key(self.actor, tenant.pk))
        key, text = services.mint_playground_key(actor=self.actor, tenant=tenant, now=self.now)
        return Response(serializers.APIKeySerializer(key).data | {"key": text}, status=201)


class ServiceTokensView(ActorView):
    """The actor's own tokens; nobody sees another's."""

    rules = {"*": Permission.SIGNED_IN}

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
    rules = {"DELETE": Permission.SIGNED_IN}

    @extend_schema(responses={204: None})
    def delete(self, request: Request, token_id: UUID) -> Response:  # noqa: ARG002
        token = selectors.get_service_token(actor=self.actor, token_id=token_id)
        services.revoke_service_token(actor=self.actor, token=token, now=self.now)
        return Response(status=204)


class ServiceAccountsView(ActorView):
    """Programs that are members of a tenant; their role is changed and seen like any member's."""

    rules = {"*": Permission.MANAGE_TENANT}

    @extend_schema(responses=serializers.MemberSerializer(many=True))
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        members = selectors.list_members(actor=self.actor, tenant_id=tenant_id)
        self.require(policies.may_manage_tenant(self.actor, tenant_id))
        return self.paged(members.filter(user__is_service_account=True), serializers.MemberSerializer)

    @extend_schema(request=serializers.NewServiceAccountSerializer, responses={201: serializers.MemberSerializer})
    def post(self, request: Request, tenant_id: UUID) -> Response:
        tenant = selectors.get_tenant(actor=self.actor, tenant_id=tenant_id)
        self.require(policies.may_manage_tenant(self.actor, tenant_id))
        new = parsed(serializers.NewServiceAccountSerializer, request.data)
        member = services.create_service_account(actor=self.actor, tenant=tenant, now=self.now, **new)
        return Response(serializers.MemberSerializer(member).data, status=201)


class ServiceAccountView(ActorView):
    rules = {"*": Permission.MANAGE_TENANT}

    @extend_schema(responses={204: None})
    def delete(self, request: Request, tenant_id: UUID, membership_id: UUID) -> Response:  # noqa: ARG002
        member = selectors.get_service_account(actor=self.actor, tenant_id=tenant_id, membership_id=membership_id)
        self.require(policies.may_manage_tenant(self.actor, tenant_id))
        services.remove_service_account(actor=self.actor, member=member, now=self.now)
        return Response(status=204)


class ServiceAccountTokensView(ActorView):
    rules = {"*": Permission.MANAGE_TENANT}

    @extend_schema(responses=serializers.ServiceTokenSerializer(many=True))
    def get(self, request: Request, tenant_id: UUID, membership_id: UUID) -> Response:  # noqa: ARG002
        tokens = selectors.list_tokens_of(member=self._account(tenant_id, membership_id))
        return self.paged(tokens, serializers.ServiceTokenSerializer)

    @extend_schema(
        request=serializers.NewServiceTokenSerializer, responses={201: serializers.ShownOnceServiceTokenSerializer}
    )
    def post(self, request: Request, tenant_id: UUID, membership_id: UUID) -> Response:
        owner = self._account(tenant_id, membership_id).user
        new = parsed(serializers.NewServiceTokenSerializer, request.data)
        token, text = services.create_service_token(actor=self.actor, owner=owner, now=self.now, **new)
        return Response(serializers.ServiceTokenSerializer(token).data | {"token": text}, status=201)

    def _account(self, tenant_id: UUID, membership_id: UUID) -> Membership:
        member = selectors.get_service_account(actor=self.actor, tenant_id=tenant_id, membership_id=membership_id)
        self.require(policies.may_manage_tenant(self.actor, tenant_id))
        return member


class InvitationsView(ActorView):
    rules = {"*": Permission.MANAGE_MEMBERS}

    @extend_schema(responses=serializers.InvitationSerializer(many=True))
    def get(self, request: Request, tenant_id: UUID) -> Response:  # noqa: ARG002
        invitations = selectors.list_invitations(actor=self.actor, tenant_id=tenant_id)
        self.require(policies.may_manage_members(self.actor, tenant_id))
        return self.paged(invitations, serializers.InvitationSerializer)

    @extend_schema(
        request=serializers.NewInvitationSerializer, responses={201: serializers.ShownOnceInvitationSerializer}
    )
    def post(self, request: Request, tenant_id: UUID) -> Response:
        tenant = selectors.get_tenant(actor=self.actor, tenant_id=tenant_id)
        self.require(policies.may_manage_members(self.actor, tenant_id))
        new = parsed(serializers.NewInvitationSerializer, request.data)
        invitation, link = services.invite(actor=self.actor, tenant=tenant, now=self.now, **new)
        return Response(serializers.InvitationSerializer(invitation).data | {"link": link}, status=201)


class InvitationView(ActorView):
    rules = {"DELETE": Permission.MANAGE_MEMBERS}

    @extend_schema(responses={204: None})
    def delete(self, request: Request, tenant_id: UUID, invitation_id: UUID) -> Response:  # noqa: ARG002
        invitation = selectors.get_invitation(actor=self.actor, tenant_id=tenant_id, invitation_id=invitation_id)
        self.require(policies.may_manage_members(self.actor, tenant_id))
        services.revoke_invitation(actor=self.actor, invitation=invitation, now=self.now)
        return Response(status=204)


class UsersView(ActorView):
    rules = {"*": Permission.MANAGE_USERS}

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

    @extend_schema(responses=serializers.UserSerializer)
    def get(self, request: Request, user_id: UUID) -> Response:  # noqa: ARG002
        return Response(serializers.UserSerializer(selectors.get_user_by_id(user_id)).data)

    @extend_schema(request=serializers.UserChangeSerializer, responses=serializers.UserSerializer)
    def patch(self, request: Request, user_id: UUID) -> Response:
        user = selectors.get_user_by_id(user_id)
        change = parsed(serializers.UserChangeSerializer, request.data)
        services.change_access(actor=self.actor, user=user, now=self.now, **change)
        return Response(serializers.UserSerializer(user).data)

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.tenants import policies, selectors, serializers, services
from apps.tenants.access import WRITES, ActorView
from apps.tenants.api.keys import end_of
from apps.tenants.matrix import Permission
from apps.tenants.models import Membership, ServiceToken


class MembersView(ActorView):
    tags_created = True
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
    rules = {"GET": Permission.SEE_KEYS, "*": Permission.MANAGE_MEMBERS}
    dangerous = WRITES

    @extend_schema(responses=serializers.MemberSerializer)
    def get(self, request: Request, tenant_id: UUID, membership_id: UUID) -> Response:  # noqa: ARG002
        member = selectors.get_member(actor=self.actor, tenant_id=tenant_id, membership_id=membership_id)
        self.require(policies.may_see_keys(self.actor, tenant_id))
        return Response(serializers.MemberSerializer(member).data)

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


class ServiceAccountsView(ActorView):
    """Programs that are members of a tenant; their role is changed and seen like any member's."""

    tags_created = True
    rules = {"*": Permission.MANAGE_TENANT}
    dangerous = WRITES

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
    dangerous = WRITES

    @extend_schema(responses=serializers.MemberSerializer)
    def get(self, request: Request, tenant_id: UUID, membership_id: UUID) -> Response:  # noqa: ARG002
        member = selectors.get_service_account(actor=self.actor, tenant_id=tenant_id, membership_id=membership_id)
        self.require(policies.may_manage_tenant(self.actor, tenant_id))
        return Response(serializers.MemberSerializer(member).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, tenant_id: UUID, membership_id: UUID) -> Response:  # noqa: ARG002
        member = selectors.get_service_account(actor=self.actor, tenant_id=tenant_id, membership_id=membership_id)
        self.require(policies.may_manage_tenant(self.actor, tenant_id))
        services.remove_service_account(actor=self.actor, member=member, now=self.now)
        return Response(status=204)


class ServiceAccountTokensView(ActorView):
    tags_created = True
    rules = {"*": Permission.MANAGE_TENANT}
    dangerous = WRITES

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
        new["expires_at"] = end_of(self, new["expires_at"])
        token, text = services.create_service_token(actor=self.actor, owner=owner, now=self.now, **new)
        return Response(serializers.ServiceTokenSerializer(token).data | {"token": text}, status=201)

    def _account(self, tenant_id: UUID, membership_id: UUID) -> Membership:
        member = selectors.get_service_account(actor=self.actor, tenant_id=tenant_id, membership_id=membership_id)
        self.require(policies.may_manage_tenant(self.actor, tenant_id))
        return member


class ServiceAccountTokenView(ActorView):
    rules = {"*": Permission.MANAGE_TENANT}
    dangerous = WRITES

    @extend_schema(responses=serializers.ServiceTokenSerializer)
    def get(self, request: Request, tenant_id: UUID, membership_id: UUID, token_id: UUID) -> Response:  # noqa: ARG002
        token = self._token(tenant_id, membership_id, token_id)
        return Response(serializers.ServiceTokenSerializer(token).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, tenant_id: UUID, membership_id: UUID, token_id: UUID) -> Response:  # noqa: ARG002
        token = self._token(tenant_id, membership_id, token_id)
        services.revoke_service_token(actor=self.actor, token=token, now=self.now)
        return Response(status=204)

    def _token(self, tenant_id: UUID, membership_id: UUID, token_id: UUID) -> ServiceToken:
        member = selectors.get_service_account(actor=self.actor, tenant_id=tenant_id, membership_id=membership_id)
        self.require(policies.may_manage_tenant(self.actor, tenant_id))
        return selectors.get_token_of(member=member, token_id=token_id)


class InvitationsView(ActorView):
    tags_created = True
    rules = {"*": Permission.MANAGE_MEMBERS}
    dangerous = WRITES

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
    rules = {"*": Permission.MANAGE_MEMBERS}

    @extend_schema(responses=serializers.InvitationSerializer)
    def get(self, request: Request, tenant_id: UUID, invitation_id: UUID) -> Response:  # noqa: ARG002
        invitation = selectors.get_invitation(actor=self.actor, tenant_id=tenant_id, invitation_id=invitation_id)
        self.require(policies.may_manage_members(self.actor, tenant_id))
        return Response(serializers.InvitationSerializer(invitation).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, tenant_id: UUID, invitation_id: UUID) -> Response:  # noqa: ARG002
        invitation = selectors.get_invitation(actor=self.actor, tenant_id=tenant_id, invitation_id=invitation_id)
        self.require(policies.may_manage_members(self.actor, tenant_id))
        services.revoke_invitation(actor=self.actor, invitation=invitation, now=self.now)
        return Response(status=204)

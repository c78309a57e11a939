from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.parsing import parsed
from apps.tenants import policies, selectors, serializers, services
from apps.tenants.access import WRITES, ActorView
from apps.tenants.matrix import Permission


class MeView(ActorView):
    rules = {"GET": Permission.SIGNED_IN}

    @extend_schema(responses=serializers.MeSerializer)
    def get(self, request: Request) -> Response:  # noqa: ARG002 - the actor is all there is to it
        return Response(serializers.MeSerializer(self.actor).data)


class APIKeysView(ActorView):
    tags_created = True
    rules = {"GET": Permission.SIGNED_IN, "POST": Permission.CREATE_KEYS}

    @extend_schema(responses=serializers.APIKeySerializer(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        self.require_scope(Permission.SEE_KEYS)
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


class _OneKey(ActorView):
    def subject(self) -> Response:
        key = selectors.get_key(actor=self.actor, key_id=self.kwargs["key_id"])
        return Response(serializers.APIKeySerializer(key).data)


class APIKeyView(_OneKey):
    rules = {"GET": Permission.SEE_KEYS, "DELETE": Permission.CREATE_KEYS}
    also = {"DELETE": Permission.REVOKE_KEYS}

    @extend_schema(responses=serializers.APIKeySerializer)
    def get(self, request: Request, key_id: UUID) -> Response:  # noqa: ARG002
        return self.subject()

    @extend_schema(responses={204: None})
    def delete(self, request: Request, key_id: UUID) -> Response:  # noqa: ARG002
        key = selectors.get_key(actor=self.actor, key_id=key_id)
        self.require(policies.may_revoke_key(self.actor, key.tenant_id, key.owner_id))
        services.revoke_key(actor=self.actor, key=key, now=self.now)
        return Response(status=204)


class RotationView(_OneKey):
    tags_created = True
    rules = {"POST": Permission.CREATE_KEYS}

    @extend_schema(request=serializers.RotationSerializer, responses={201: serializers.ShownOnceAPIKeySerializer})
    def post(self, request: Request, key_id: UUID) -> Response:
        key = selectors.get_key(actor=self.actor, key_id=key_id)
        self.require(policies.may_revoke_key(self.actor, key.tenant_id, key.owner_id))
        overlap_s = parsed(serializers.RotationSerializer, request.data)["overlap_s"]
        made, text = services.rotate_key(actor=self.actor, key=key, overlap_s=overlap_s, now=self.now)
        return Response(serializers.APIKeySerializer(made).data | {"key": text}, status=201)


class PlaygroundKeysView(ActorView):
    tags_created = True
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

    tags_created = True
    rules = {"*": Permission.SIGNED_IN}
    dangerous = WRITES

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
    rules = {"*": Permission.SIGNED_IN}

    @extend_schema(responses=serializers.ServiceTokenSerializer)
    def get(self, request: Request, token_id: UUID) -> Response:  # noqa: ARG002
        token = selectors.get_service_token(actor=self.actor, token_id=token_id)
        return Response(serializers.ServiceTokenSerializer(token).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, token_id: UUID) -> Response:  # noqa: ARG002
        token = selectors.get_service_token(actor=self.actor, token_id=token_id)
        services.revoke_service_token(actor=self.actor, token=token, now=self.now)
        return Response(status=204)

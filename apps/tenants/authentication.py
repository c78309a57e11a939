from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.tenants.models import ServiceToken, User
from apps.tenants.selectors import find_token


class BearerTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer tys-…`; the token acts as its owner, within its scopes."""

    def authenticate(self, request: Request) -> tuple[User, ServiceToken] | None:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        token = find_token(text=text.strip(), now=timezone.now())
        if token is None:
            raise AuthenticationFailed("the token is unknown, expired or revoked")
        return token.owner, token

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 - DRF's signature
        return 'Bearer realm="tokenyard"'


class BearerTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = BearerTokenAuthentication
    name = "serviceToken"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:  # noqa: ARG002 - spectacular's signature
        return {"type": "http", "scheme": "bearer"}

from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.tenants.models import User
from apps.tenants.selectors import find_token_owner


class BearerTokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer tys-…`; the token acts as its owner."""

    def authenticate(self, request: Request) -> tuple[User, None] | None:
        scheme, _, text = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        owner = find_token_owner(text=text.strip(), now=timezone.now())
        if owner is None:
            raise AuthenticationFailed("the token is unknown, expired or revoked")
        return owner, None

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002 - DRF's signature
        return 'Bearer realm="tokenyard"'


class BearerTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = BearerTokenAuthentication
    name = "serviceToken"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:  # noqa: ARG002 - spectacular's signature
        return {"type": "http", "scheme": "bearer"}

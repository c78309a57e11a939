"""The identity provider by OpenID Connect: authorisation code, PKCE, state, nonce. Authlib does the protocol."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import requests
from authlib.integrations.base_client.errors import OAuthError
from authlib.integrations.django_client import OAuth
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase
from joserfc.errors import JoseError

from apps.common.errors import DomainError
from apps.identity.policies import Granted, grant, is_subject

TIMEOUT_S = 10
CLOCKS_DIFFER_S = 120
_ASK_AGAIN = {"prompt": "login", "max_age": "0"}
_ASKED_AGAIN_AT = "asked_again_at"
_ALGORITHMS = "id_token_signing_alg_values_supported"
# Providers say there what they can do, and some can leave a token unsigned. Ours is signed with a key of theirs.
_BELIEVED = frozenset(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"))
# What comes of a provider that is away, says no, or answers what no provider should.
_ODD = (requests.RequestException, OAuthError, ValueError, KeyError, RuntimeError, TypeError, AttributeError)


class ProviderError(DomainError):
    """The provider is away, said no, or said something that we do not believe."""

    code = "identity_provider"
    status = 502


def is_configured() -> bool:
    return bool(settings.OIDC["issuer"])


def begin(request: HttpRequest, redirect_uri: str, *, now: datetime) -> HttpResponseBase:
    """Who is signed in and comes to confirm it is to be asked by the provider, whatever session it has there."""
    is_again = request.user.is_authenticated
    if is_again:
        request.session[_ASKED_AGAIN_AT] = now.timestamp()
    try:
        answer: HttpResponseBase = _client().authorize_redirect(
            request, redirect_uri, **(_ASK_AGAIN if is_again else {})
        )
    except _ODD as error:
        forget_provider()
        raise ProviderError("the identity provider cannot be reached; try again, or sign in by password") from error
    return answer


def finish(request: HttpRequest) -> dict[str, Any]:
    """The claims of a token that the provider signed for us, for this browser, just now."""
    issuer, client_id = settings.OIDC["issuer"], settings.OIDC["client_id"]
    options = {
        "iss": {"essential": True, "values": [issuer]},
        "aud": {"essential": True, "values": [client_id]},
        "sub": {"essential": True},
    }
    try:
        client = _client()
        _believe_signed_only(client.load_server_metadata())
        token = client.authorize_access_token(request, claims_options=options)
    except (JoseError, *_ODD) as error:
        forget_provider()
        raise ProviderError("the identity provider did not vouch for you; try again") from error
    claims: dict[str, Any] | None = token.get("userinfo")
    if not claims or not is_subject(claims.get("sub")):
        raise ProviderError("the identity provider did not say who you are")
    asked_at = request.session.pop(_ASKED_AGAIN_AT, None)
    recognised_at = recognised_at_of(claims)
    if asked_at is not None and recognised_at is not None and recognised_at < asked_at - CLOCKS_DIFFER_S:
        raise ProviderError(
            "the identity provider vouched for an earlier sign-in and did not ask who you are; try again"
        )
    return dict(claims)


def _believe_signed_only(metadata: dict[str, Any]) -> None:
    """Authlib takes whatever is named there. OpenID Connect Discovery 1.0 asks every provider for RS256."""
    metadata[_ALGORITHMS] = sorted(_BELIEVED.intersection(metadata.get(_ALGORITHMS) or ())) or ["RS256"]


def recognised_at_of(claims: Mapping[str, Any]) -> float | None:
    """When the provider last saw a password or the like, in Unix seconds. None where it does not say."""
    at = claims.get("auth_time")
    return float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None


def granted_by(claims: dict[str, Any]) -> Granted:
    groups = claims.get(settings.OIDC["groups_claim"])
    named = [group for group in groups if isinstance(group, str)] if isinstance(groups, list) else []
    return grant(named, settings.OIDC["group_rules"])


def forget_provider() -> None:
    """The next sign-in reads the provider's metadata and keys anew.

    After each failure: what a provider said in a bad moment would be believed until web ends, and a key without an id
    says by nothing else that it has been replaced.
    """
    _client.cache_clear()


@lru_cache(maxsize=1)
def _client() -> Any:
    chosen = settings.OIDC
    return OAuth().register(
        "provider",
        client_id=chosen["client_id"],
        client_secret=chosen["client_secret"],
        server_metadata_url=f"{chosen['issuer'].rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": chosen["scopes"],
            "code_challenge_method": "S256",
            "default_timeout": TIMEOUT_S,
        },
    )

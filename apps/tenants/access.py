"""The base of every REST view: who asks, whether the matrix lets them, and when. The rest of it is in apps/rest."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from django.http.response import HttpResponseBase
from django.utils import timezone
from rest_framework.request import Request

from apps.audit.services import noting
from apps.common.actors import Actor
from apps.common.errors import NotAllowedError
from apps.common.rows import see_rows_of
from apps.common.sessions import is_fresh
from apps.rest.conventions.views import WRITE_METHODS, ConventionalView
from apps.tenants.matrix import Permission, is_withheld, may_somewhere
from apps.tenants.models import ServiceToken, User
from apps.tenants.selectors import actor_of

ANY_METHOD = "*"
WRITES = WRITE_METHODS


class ConfirmFirstError(NotAllowedError):
    code = "confirm_first"


View = TypeVar("View", bound=Callable[..., Any])


def with_rule(view: View, permission: Permission) -> View:
    """Notes on a view which permission it takes, for whoever walks the addresses; the view itself asks for it."""
    setattr(view, "rules", {ANY_METHOD: permission})  # noqa: B010 - a function has no such attribute to a type checker
    return view


class ActorView(ConventionalView):
    """`rules` says by method which permission it takes; a method without one is refused to everybody.

    `also` names the permission that gets past the door in its place, where the handler then looks more closely. A
    `dangerous` method asks a browser's session to have been confirmed of late; a token needs no confirming.
    """

    rules: ClassVar[Mapping[str, Permission]] = {}
    also: ClassVar[Mapping[str, Permission]] = {}
    dangerous: ClassVar[frozenset[str]] = frozenset()

    def dispatch(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with noting() as self._noted:
            return super().dispatch(request, *args, **kwargs)

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        see_rows_of(self.actor)
        if request.method != "OPTIONS" and hasattr(self, (request.method or "").lower()):
            permission = self._permission_for(request.method or "")
            self.require(self._may(request.method or "", permission))
            if permission == Permission.SIGNED_IN and request.method in WRITES:
                self._require_own_account()
            if request.method in self.dangerous and request.auth is None and not is_fresh(request.session, self.now):
                raise ConfirmFirstError("show your password again at /account/confirm/, or use a service token")

    @cached_property
    def actor(self) -> Actor:
        user, token = self.request.user, self.request.auth
        if not isinstance(user, User):
            raise NotAllowedError("sign in first")
        if isinstance(token, ServiceToken):
            return actor_of(user, frozenset(token.scopes), token.expires_at)
        return actor_of(user)

    @cached_property
    def now(self) -> datetime:
        return timezone.now()

    def require(self, is_allowed: bool) -> None:
        if not is_allowed:
            raise NotAllowedError("your role does not allow this")

    def require_scope(self, permission: Permission) -> None:
        """For a list of which everybody gets their part: a narrow token reads no more by it than one by one."""
        if is_withheld(self.actor, permission):
            raise NotAllowedError(f"the token's scopes leave out {permission.value}")

    def _may(self, method: str, permission: Permission) -> bool:
        return any(may_somewhere(self.actor, each) for each in (permission, self.also.get(method, permission)))

    def _require_own_account(self) -> None:
        """Who got hold of a narrow token ends no sessions, and makes and revokes no tokens."""
        scopes = self.actor.scopes
        if scopes is not None and Permission.SIGNED_IN not in scopes:
            raise NotAllowedError("the token's scopes leave out the account of its owner: self")

    def may_look(self) -> bool:
        """Where nothing is shown by GET, whoever may do the thing may see what it is done to."""
        method = "GET" if hasattr(self, "get") else self.request.method or ""
        return self._may(method, self._permission_for(method))

    def list_changes_noted(self) -> list[dict[str, Any]]:
        return [
            {"action": each.action, "subject_type": each.subject_type, "subject_name": each.subject_name}
            | {"before": each.before, "after": each.after}
            for each in self._noted
        ]

    def _permission_for(self, method: str) -> Permission:
        method = "GET" if method == "HEAD" else method
        permission = self.rules.get(method) or self.rules.get(ANY_METHOD)
        if permission is None:
            raise NotAllowedError("nobody may do this: it has no rule")
        return permission


class OperatorView(ActorView):
    """Only operators get past the door."""

    rules = {ANY_METHOD: Permission.OPERATE}

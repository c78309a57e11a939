"""The base of every REST view: who asks, whether the matrix lets them, when, and the answer in pages."""

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar, TypeVar

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from apps.common.actors import Actor
from apps.common.errors import NotAllowedError
from apps.common.pagination import NewestFirst
from apps.common.rows import see_rows_of
from apps.common.sessions import is_fresh
from apps.tenants.matrix import Permission, may_somewhere
from apps.tenants.models import ServiceToken, User
from apps.tenants.selectors import actor_of

ANY_METHOD = "*"
WRITES = frozenset({"POST", "PUT", "PATCH", "DELETE"})


class ConfirmFirstError(NotAllowedError):
    code = "confirm_first"


View = TypeVar("View", bound=Callable[..., Any])


def with_rule(view: View, permission: Permission) -> View:
    """Notes on a view which permission it takes, for whoever walks the addresses; the view itself asks for it."""
    setattr(view, "rules", {ANY_METHOD: permission})  # noqa: B010 - a function has no such attribute to a type checker
    return view


class ActorView(APIView):
    """`rules` says by method which permission it takes; a method without one is refused to everybody.

    A `dangerous` method asks a browser's session to have been confirmed of late; a token needs no confirming.
    """

    pagination_class: type[NewestFirst] = NewestFirst
    rules: ClassVar[Mapping[str, Permission]] = {}
    dangerous: ClassVar[frozenset[str]] = frozenset()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        see_rows_of(self.actor)
        if request.method != "OPTIONS" and hasattr(self, (request.method or "").lower()):
            self.require(may_somewhere(self.actor, self._permission_for(request.method or "")))
            if request.method in self.dangerous and request.auth is None and not is_fresh(request.session, self.now):
                raise ConfirmFirstError("show your password again at /account/confirm/, or use a service token")

    @cached_property
    def actor(self) -> Actor:
        user, token = self.request.user, self.request.auth
        if not isinstance(user, User):
            raise NotAllowedError("sign in first")
        return actor_of(user, frozenset(token.scopes) if isinstance(token, ServiceToken) else None)

    @cached_property
    def now(self) -> datetime:
        return timezone.now()

    def require(self, is_allowed: bool) -> None:
        if not is_allowed:
            raise NotAllowedError("your role does not allow this")

    def paged(self, rows: QuerySet[Any], serializer: type[BaseSerializer[Any]]) -> Response:
        pages = self.pagination_class()
        page = pages.paginate_queryset(rows, self.request, view=self)
        return pages.get_paginated_response(serializer(page, many=True).data)

    def _permission_for(self, method: str) -> Permission:
        method = "GET" if method == "HEAD" else method
        permission = self.rules.get(method) or self.rules.get(ANY_METHOD)
        if permission is None:
            raise NotAllowedError("nobody may do this: it has no rule")
        return permission


class OperatorView(ActorView):
    """Only operators get past the door."""

    rules = {ANY_METHOD: Permission.OPERATE}

"""The base of every REST view: who asks, when, and the answer in pages."""

from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer
from rest_framework.views import APIView

from apps.common.actors import Actor
from apps.common.errors import NotAllowedError
from apps.common.pagination import NewestFirst
from apps.tenants.models import User
from apps.tenants.policies import may_operate
from apps.tenants.selectors import actor_of


class ActorView(APIView):
    pagination_class: type[NewestFirst] = NewestFirst

    @cached_property
    def actor(self) -> Actor:
        user = self.request.user
        if not isinstance(user, User):
            raise NotAllowedError("sign in first")
        return actor_of(user)

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


class OperatorView(ActorView):
    """Only operators get past the door."""

    def initial(self, *args: Any, **kwargs: Any) -> None:
        super().initial(*args, **kwargs)
        self.require(may_operate(self.actor))

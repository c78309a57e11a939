"""Who may open which page: each names its permission in `page`, and the matrix says who has it."""

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase

from apps.common.actors import Actor
from apps.common.errors import DomainError, NotAllowedError, NotFoundError
from apps.tenants.access import with_rule
from apps.tenants.matrix import Permission, may_somewhere
from apps.tenants.models import User
from apps.tenants.selectors import actor_of


class ConsoleRequest(HttpRequest):
    """A request of somebody who is signed in."""

    user: User
    actor: Actor


View = Callable[..., HttpResponseBase]

everybody = Permission.SIGNED_IN
operators = Permission.OPERATE


def page(permission: Permission) -> Callable[[View], Callable[..., HttpResponseBase]]:
    """A view for those who have the permission; what the domain then refuses becomes 404, 403 or 400."""

    def decorate(view: View) -> Callable[..., HttpResponseBase]:
        @login_required
        @wraps(view)
        def entry(request: HttpRequest, **captured: Any) -> HttpResponseBase:
            signed_in = cast("ConsoleRequest", request)
            signed_in.actor = actor_of(signed_in.user)
            if not may_somewhere(signed_in.actor, permission):
                raise PermissionDenied
            return _answer(view, signed_in, captured)

        return with_rule(entry, permission)

    return decorate


def _answer(view: View, request: ConsoleRequest, captured: dict[str, Any]) -> HttpResponseBase:
    try:
        return view(request, **captured)
    except NotFoundError as error:
        raise Http404 from error
    except NotAllowedError as error:
        raise PermissionDenied from error
    except DomainError as error:
        raise BadRequest(error.message) from error


def require(permission: bool) -> None:
    if not permission:
        raise NotAllowedError("your role does not allow that")

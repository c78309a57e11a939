"""Who may open which page. Every view of the console goes through `page`, so none can forget to ask."""

from collections.abc import Callable
from functools import wraps
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.core.exceptions import BadRequest, PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase

from apps.common.actors import Actor
from apps.common.errors import DomainError, NotAllowedError, NotFoundError
from apps.tenants.models import User
from apps.tenants.selectors import actor_of


class ConsoleRequest(HttpRequest):
    """A request of somebody who is signed in."""

    user: User
    actor: Actor


View = Callable[..., HttpResponseBase]
Allow = Callable[[Actor], bool]


def everybody(actor: Actor) -> bool:
    return actor.user_id is not None


def operators(actor: Actor) -> bool:
    return actor.is_operator


def page(allow: Allow) -> Callable[[View], Callable[..., HttpResponseBase]]:
    """A view for those whom `allow` lets in; what the domain then refuses becomes 404, 403 or 400."""

    def decorate(view: View) -> Callable[..., HttpResponseBase]:
        @login_required
        @wraps(view)
        def entry(request: HttpRequest, **captured: Any) -> HttpResponseBase:
            signed_in = cast("ConsoleRequest", request)
            signed_in.actor = actor_of(signed_in.user)
            if not allow(signed_in.actor):
                raise PermissionDenied
            return _answer(view, signed_in, captured)

        return entry

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

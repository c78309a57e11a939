from uuid import UUID

from django.db.models import Prefetch, QuerySet

from apps.common.errors import NotFoundError
from apps.routing.models import Route, RouteTarget


def list_routes() -> QuerySet[Route]:
    targets = RouteTarget.objects.select_related("version__model").order_by("version__label", "id")
    return Route.objects.prefetch_related(Prefetch("targets", queryset=targets))


def get_route(route_id: UUID) -> Route:
    route = list_routes().filter(pk=route_id).first()
    if route is None:
        raise NotFoundError("no such route")
    return route


def list_public_models() -> list[tuple[str, str]]:
    """Public name and task of every route: what a tenant may ask for."""
    rows = RouteTarget.objects.values_list("route__public_name", "version__model__task")
    return sorted(set(rows))

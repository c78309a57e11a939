from uuid import UUID

from django.db.models import Exists, OuterRef, Prefetch, QuerySet

from apps.common.errors import NotFoundError
from apps.deployments.models import Replica, ReplicaState
from apps.registry.models import Task
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


def list_chat_models() -> list[str]:
    """Public names of what generates, for who begins: first those that an engine serves now."""
    ready = (ReplicaState.READY, ReplicaState.DEGRADED)
    serving = Exists(Replica.objects.filter(revision__version=OuterRef("version"), state__in=ready))
    targets = RouteTarget.objects.filter(version__model__task=Task.GENERATE)
    rows = set(targets.annotate(is_served=serving).values_list("route__public_name", "is_served"))
    served = {name for name, is_served in rows if is_served}
    return sorted({name for name, _ in rows}, key=lambda name: (name not in served, name))

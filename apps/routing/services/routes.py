from collections.abc import Mapping
from datetime import datetime
from uuid import UUID

from django.db import transaction

from apps.audit.services import record_change
from apps.common import live
from apps.common.actors import Actor
from apps.common.errors import ConflictError, InvalidInputError
from apps.common.saving import save_checked
from apps.common.tasks_by_name import enqueue_on_commit
from apps.registry.models import ModelVersion
from apps.routing.models import Route, RouteTarget
from apps.routing.policies import problem_of_weights

PUBLISH = "routing.publish"


@transaction.atomic
def create_route(*, actor: Actor, public_name: str, weights: Mapping[UUID, int], now: datetime) -> Route:
    """`weights` by version id."""
    route = Route(public_name=public_name, created_at=now)
    save_checked(route)
    _replace_targets(route, weights)
    _record(actor=actor, action="route.created", route=route, before={}, now=now)
    return route


@transaction.atomic
def set_canary_weights(*, actor: Actor, route_id: UUID, weights: Mapping[UUID, int], now: datetime) -> Route:
    """`weights` by version id are the whole of the route's targets afterwards."""
    route = Route.objects.select_for_update().get(pk=route_id)
    before = _weights_of(route)
    _replace_targets(route, weights)
    _record(actor=actor, action="route.weights_changed", route=route, before=before, now=now)
    return route


def _replace_targets(route: Route, weights: Mapping[UUID, int]) -> None:
    if problem := problem_of_weights(weights):
        raise InvalidInputError(problem, fields={"targets": problem})
    versions = ModelVersion.objects.select_related("model").filter(pk__in=weights)
    if len(versions) != len(weights):
        raise InvalidInputError("a version does not exist", fields={"targets": "a version does not exist"})
    if len({version.model.task for version in versions}) > 1:
        raise ConflictError("the versions of a route have one task", fields={"targets": "tasks differ"})
    RouteTarget.objects.filter(route=route).exclude(version_id__in=weights).delete()
    for version in versions:
        RouteTarget.objects.update_or_create(route=route, version=version, defaults={"weight": weights[version.pk]})


def _weights_of(route: Route) -> dict[str, int]:
    targets = RouteTarget.objects.filter(route=route).select_related("version__model")
    return {str(target.version): target.weight for target in targets}


def _record(*, actor: Actor, action: str, route: Route, before: dict[str, int], now: datetime) -> None:
    after = _weights_of(route)
    record_change(actor=actor, action=action, subject=route, now=now, before=before, after=after)
    live.publish_on_commit(live.ROUTES, {"route_id": str(route.pk), "weights": after})
    enqueue_on_commit(PUBLISH)

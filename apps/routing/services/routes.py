from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
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
from apps.routing.policies import problem_of_alternatives, problem_of_weights

PUBLISH = "routing.publish"


@transaction.atomic
def create_route(
    *, actor: Actor, public_name: str, weights: Mapping[UUID, int], alternatives: Sequence[UUID] = (), now: datetime
) -> Route:
    """`weights` by version id; `alternatives` are those of them that may answer what another cannot, in order."""
    route = Route(public_name=public_name, created_at=now)
    save_checked(route)
    _replace_targets(route, weights, alternatives)
    _record(actor=actor, action="route.created", route=route, before={}, now=now)
    return route


@transaction.atomic
def set_canary_weights(
    *,
    actor: Actor,
    route_id: UUID,
    weights: Mapping[UUID, int],
    alternatives: Sequence[UUID] | None = None,
    now: datetime,
) -> Route:
    """`weights` by version id are the whole of the route's targets afterwards; without `alternatives` those stay."""
    route = Route.objects.select_for_update().get(pk=route_id)
    before = _shown(route)
    if alternatives is None:
        alternatives = [target.version_id for target in route.alternatives if target.version_id in weights]
    _replace_targets(route, weights, alternatives)
    _record(actor=actor, action="route.weights_changed", route=route, before=before, now=now)
    return route


@transaction.atomic
def delete_route(*, actor: Actor, route: Route, now: datetime) -> None:
    """Gateways know no such model from the next snapshot on."""
    record_change(actor=actor, action="route.deleted", subject=route, now=now, before=_shown(route))
    route.delete()
    enqueue_on_commit(PUBLISH)


def _replace_targets(route: Route, weights: Mapping[UUID, int], alternatives: Sequence[UUID]) -> None:
    if problem := problem_of_weights(weights):
        raise InvalidInputError(problem, fields={"targets": problem})
    if problem := problem_of_alternatives(alternatives, weights):
        raise InvalidInputError(problem, fields={"alternatives": problem})
    versions = ModelVersion.objects.select_related("model").filter(pk__in=weights)
    if len(versions) != len(weights):
        raise InvalidInputError("a version does not exist", fields={"targets": "a version does not exist"})
    if len({version.model.task for version in versions}) > 1:
        raise ConflictError("the versions of a route have one task", fields={"targets": "tasks differ"})
    RouteTarget.objects.filter(route=route).exclude(version_id__in=weights).delete()
    ranks = {version_id: rank for rank, version_id in enumerate(alternatives, 1)}
    for version in versions:
        values = {"weight": weights[version.pk], "alternative_rank": ranks.get(version.pk)}
        RouteTarget.objects.update_or_create(route=route, version=version, defaults=values)


def _weights_of(route: Route) -> dict[str, int]:
    targets = RouteTarget.objects.filter(route=route).select_related("version__model")
    return {str(target.version): target.weight for target in targets}


def _shown(route: Route) -> dict[str, Any]:
    """For the audit."""
    ranked = RouteTarget.objects.filter(route=route, alternative_rank__isnull=False).order_by("alternative_rank")
    names = [str(target.version) for target in ranked.select_related("version__model")]
    return _weights_of(route) | ({"alternatives": names} if names else {})


def _record(*, actor: Actor, action: str, route: Route, before: dict[str, Any], now: datetime) -> None:
    record_change(actor=actor, action=action, subject=route, now=now, before=before, after=_shown(route))
    live.publish_on_commit(live.ROUTES, {"route_id": str(route.pk), "weights": _weights_of(route)})
    enqueue_on_commit(PUBLISH)

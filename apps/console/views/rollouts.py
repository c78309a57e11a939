"""Rollouts: which are under way, where each stands; on a deployment's page held up, taken further, taken back."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_POST, require_safe

from apps.common.errors import DomainError, InvalidInputError, NotFoundError
from apps.common.ids import read_uuid
from apps.console.access import ConsoleRequest, operators, page
from apps.console.rendering import render_page
from apps.console.selectors.rollouts import list_courses, list_latest_revisions
from apps.deployments.models import Deployment
from apps.deployments.selectors import get_deployment
from apps.deployments.services.deployments import Change, change_deployment
from apps.deployments.services.rollouts import pause_rollout, undo_rollout
from apps.registry.selectors import get_version

_SAID = {
    "pause": "stays as it is until it is resumed",
    "resume": "goes on",
    "undo": "goes back",
    "version": "rolls out the other version",
}


@page(operators)
@require_safe
def rollouts(request: ConsoleRequest) -> HttpResponseBase:
    return render_page(request, "rollouts.html", {"courses": list_courses(), "revisions": list_latest_revisions()})


@page(operators)
@require_POST
def deployment_rollout(request: ConsoleRequest, deployment_id: UUID) -> HttpResponseBase:
    deployment, act = get_deployment(deployment_id), request.POST.get("act", "")
    if act not in _SAID:
        raise InvalidInputError("there is no such act")
    try:
        if act == "undo":
            undo_rollout(actor=request.actor, deployment=deployment, now=now())
        elif act == "version":
            _roll_out(request, deployment)
        else:
            pause_rollout(actor=request.actor, deployment=deployment, is_paused=act == "pause", now=now())
        messages.success(request, f"{deployment.name} {_SAID[act]}.")
    except DomainError as error:
        messages.error(request, str(error))
    return redirect("console:deployment", deployment.pk)


def _roll_out(request: ConsoleRequest, deployment: Deployment) -> None:
    version_id = read_uuid(request.POST.get("version_id", ""))
    if version_id is None:
        raise NotFoundError("choose a version")
    change = Change(version=get_version(version_id))
    change_deployment(actor=request.actor, deployment=deployment, change=change, now=now())

"""A deployment's rollout, on its page: held up, taken further, taken back."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_POST

from apps.common.errors import DomainError
from apps.console.access import ConsoleRequest, operators, page
from apps.deployments.selectors import get_deployment
from apps.deployments.services.rollouts import pause_rollout, undo_rollout

_SAID = {"pause": "stays as it is until it is resumed", "resume": "goes on", "undo": "goes back"}


@page(operators)
@require_POST
def deployment_rollout(request: ConsoleRequest, deployment_id: UUID) -> HttpResponseBase:
    deployment, act = get_deployment(deployment_id), request.POST.get("act", "")
    try:
        if act == "undo":
            undo_rollout(actor=request.actor, deployment=deployment, now=now())
        else:
            pause_rollout(actor=request.actor, deployment=deployment, is_paused=act == "pause", now=now())
        messages.success(request, f"{deployment.name} {_SAID.get(act, _SAID['resume'])}.")
    except DomainError as error:
        messages.error(request, str(error))
    return redirect("console:deployment", deployment.pk)

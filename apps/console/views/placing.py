"""What would run where: a version's fit on this fleet, the plan before it is made, and machines that join and leave."""

import json
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_POST

from apps.common.errors import DomainError, InvalidInputError
from apps.console.access import ConsoleRequest, operators, page
from apps.console.forms import DeployForm, LabelsForm
from apps.console.policies.snippets import api_call, apply_line
from apps.console.rendering import attempt, render_page, sentence
from apps.console.selectors.live import read_logs
from apps.deployments.selectors import get_deployment, get_replica
from apps.deployments.services.deployments import cancel_drain, create_deployment, drain_replica, restart_replica
from apps.fleet.policies.joining import lines_for
from apps.fleet.selectors import get_node
from apps.fleet.services.joining import create_join_token
from apps.fleet.services.nodes import label_node, remove_node, set_drain
from apps.placement.services.preview import Preview, preview_deployment
from apps.registry.models import ModelVersion
from apps.registry.selectors import get_version

REPLICA_ACTS = {"restart": restart_replica, "keep": cancel_drain, "drain": drain_replica}


@page(operators)
def version(request: ConsoleRequest, version_id: UUID) -> HttpResponseBase:
    """The query is the plan that is asked for, so that it can be sent to somebody."""
    found = get_version(version_id)
    form = DeployForm(request.GET if "replica_count" in request.GET else None, initial={"name": _name_for(found)})
    preview = attempt(form, lambda: _preview(found, form.wanted)) if form.is_bound else _preview(found, {})
    return _render_version(request, found, form, preview)


@page(operators)
@require_POST
def version_deploy(request: ConsoleRequest, version_id: UUID) -> HttpResponseBase:
    found, form = get_version(version_id), DeployForm(request.POST)
    made = attempt(
        form,
        lambda: create_deployment(
            actor=request.actor, name=form.cleaned_data["name"], version=found, now=now(), **form.wanted
        ),
    )
    if made is None:
        return _render_version(request, found, form, None)
    messages.success(request, f"{made.name} is on its way; replicas it should have: {made.replica_count}.")
    return redirect("console:deployment", made.pk)


@page(operators)
@require_POST
def node_join(request: ConsoleRequest) -> HttpResponseBase:
    token, text = create_join_token(actor=request.actor, now=now())
    lines = lines_for(text, web_url=settings.WEB_URL)
    return render_page(request, "node_join.html", {"token": token, "lines": lines})


@page(operators)
@require_POST
def node_drain(request: ConsoleRequest, node_id: UUID) -> HttpResponseBase:
    is_draining = request.POST.get("is_draining") == "1"
    node = set_drain(actor=request.actor, node=get_node(node_id), is_draining=is_draining, now=now())
    text = "gives up its replicas, each after it has finished what it has" if is_draining else "is drained no more"
    messages.success(request, f"{node.name} {text}.")
    return redirect("console:node", node.pk)


@page(operators)
@require_POST
def node_labels(request: ConsoleRequest, node_id: UUID) -> HttpResponseBase:
    node, form = get_node(node_id), LabelsForm(request.POST)
    labelled = attempt(
        form, lambda: label_node(actor=request.actor, node=node, labels=form.cleaned_data["labels"], now=now())
    )
    if labelled is None:
        messages.error(request, " ".join(str(text) for texts in form.errors.values() for text in texts))
    return redirect("console:node", node.pk)


@page(operators)
@require_POST
def node_remove(request: ConsoleRequest, node_id: UUID) -> HttpResponseBase:
    node = get_node(node_id)
    remove_node(actor=request.actor, node=node, now=now())
    messages.success(request, f"{node.name} is no longer part of the fleet; its agent's token has ended.")
    return redirect("console:fleet")


@page(operators)
@require_POST
def replica_act(request: ConsoleRequest, replica_id: UUID) -> HttpResponseBase:
    replica, act = get_replica(replica_id), REPLICA_ACTS.get(request.POST.get("act", ""))
    if act is None:
        raise InvalidInputError("there is no such act")
    try:
        act(actor=request.actor, replica=replica, now=now())
        messages.success(request, "The replica's agent has been asked; what becomes of it is among its events.")
    except DomainError as error:
        messages.error(request, sentence(error.message))
    return redirect("console:replica", replica.pk)


@page(operators)
def deployment_logs(request: ConsoleRequest, deployment_id: UUID) -> HttpResponseBase:
    """A part of the page, asked for again every few seconds."""
    found = get_deployment(deployment_id)
    context = {"deployment": found, "logs": read_logs(list(found.replicas.all()))}
    return render_page(request, "deployment_logs.html", context)


def _preview(found: ModelVersion, wanted: dict[str, Any]) -> Preview:
    return preview_deployment(version=found, now=now(), **wanted)


def _render_version(
    request: ConsoleRequest, found: ModelVersion, form: DeployForm, preview: Preview | None
) -> HttpResponseBase:
    wanted = form.wanted if form.is_bound and form.is_valid() else {"replica_count": 1, "requirements": {}}
    body = {"name": _name_for(found), "version_id": str(found.pk), **wanted}
    context = {
        "version": found,
        "form": form,
        "preview": preview,
        "places": places_of(preview) if preview else [],
        "need": preview.need if preview else None,
        "engine_args": json.dumps(found.engine_args, indent=2) if found.engine_args else "",
        "api": api_call(web_url=settings.WEB_URL, method="POST", path="/api/v1/deployments/", body=body),
        "cli": apply_line({"kind": "Deployment", "name": body["name"], "version": str(found), **wanted}),
    }
    return render_page(request, "version.html", context)


def places_of(preview: Preview) -> list[dict[str, Any]]:
    names = {node.node_id: node.name for node in preview.nodes}
    return [
        {
            "stages": [{"node": names[stage.node_id], "keys": ", ".join(stage.keys)} for stage in each.stages],
            "usd_per_h": each.usd_per_h,
        }
        for each in preview.assignments
    ]


def _name_for(found: ModelVersion) -> str:
    return f"{found.model.name}-{found.label}"[:63]

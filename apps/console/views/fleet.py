"""The machines: which serve, with what, and whether each has the newest snapshot."""

import time
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_POST

from apps.audit.selectors import list_entries_of
from apps.console.access import ConsoleRequest, operators, page
from apps.console.links import page_links
from apps.console.lists import csv_answer, is_csv, list_page, sorted_rows
from apps.console.policies.gpu_map import map_of
from apps.console.policies.snippets import api_call, cli_line
from apps.console.rendering import render_page
from apps.console.selectors.live import read_frame
from apps.console.usage_query import read_text
from apps.deployments.selectors import list_deployments, list_replicas
from apps.fleet.models import Node
from apps.fleet.selectors import get_node, list_nodes
from apps.fleet.services.nodes import set_cordon
from apps.placement.services.views import list_node_views

COLUMNS = {"name": "name", "state": "state", "heard": "last_seen_at", "joined": "created_at"}
CSV = {
    "node": lambda node: node.name,
    "state": lambda node: node.state,
    "is_cordoned": lambda node: node.is_cordoned,
    "is_draining": lambda node: node.is_draining,
    "labels": lambda node: " ".join(f"{name}={value}" for name, value in node.labels.items()),
    "accelerators": lambda node: ", ".join(each.name for each in node.accelerators.all()),
    "gateway_url": lambda node: node.gateway_url,
    "last_seen_at": lambda node: node.last_seen_at,
}


@page(operators)
def fleet(request: ConsoleRequest) -> HttpResponseBase:
    search = read_text(request.GET, "q")
    found = list_nodes().filter(name__icontains=search)
    if is_csv(request.GET):
        return csv_answer("nodes", CSV, sorted_rows(found, request.GET, COLUMNS, default="name"))
    listing = list_page(found, request.GET, COLUMNS, default="name")
    nodes = listing.rows
    accelerators = [accelerator for node in nodes for accelerator in node.accelerators.all()]
    names, ids = {each.pk: each.name for each in list_deployments()}, {(a.node_id, a.key): a.pk for a in accelerators}
    context = {
        "frame": read_frame(now_s=time.time()),
        "links": page_links(),
        "map": map_of([view for view in list_node_views() if view.node_id in {n.pk for n in nodes}], names, ids),
        "nodes": nodes,
        "listing": listing,
        "search": search,
        "accelerators": accelerators,
    }
    return render_page(request, "fleet.html", context)


@page(operators)
def node(request: ConsoleRequest, node_id: UUID) -> HttpResponseBase:
    node = get_node(node_id)
    context = {
        "frame": read_frame(now_s=time.time()),
        "node": node,
        "accelerators": node.accelerators.all(),
        "replicas": list_replicas(node_id=node.pk),
        "events": list_entries_of(subject_type="node", subject_id=str(node.pk)),
        "api": _calls_for(node),
        "cli": _lines_for(node),
    }
    return render_page(request, "node.html", context)


def _calls_for(node: Node) -> dict[str, str]:
    path = f"/api/v1/nodes/{node.pk}/"
    bodies = {
        "cordon": {"is_cordoned": True},
        "uncordon": {"is_cordoned": False},
        "drain": {"is_draining": True},
        "undrain": {"is_draining": False},
    }
    calls = {
        name: api_call(web_url=settings.WEB_URL, method="PATCH", path=path, body=body) for name, body in bodies.items()
    }
    return calls | {"remove": api_call(web_url=settings.WEB_URL, method="DELETE", path=path)}


def _lines_for(node: Node) -> dict[str, str]:
    return {
        "cordon": cli_line("cordon", node.name),
        "uncordon": cli_line("uncordon", node.name),
        "drain": cli_line("drain", node.name),
        "undrain": cli_line("drain", node.name, "--undo"),
        "remove": cli_line("delete", f"node/{node.name}"),
    }


@page(operators)
@require_POST
def node_cordon(request: ConsoleRequest, node_id: UUID) -> HttpResponseBase:
    is_cordoned = request.POST.get("is_cordoned") == "1"
    node = set_cordon(actor=request.actor, node=get_node(node_id), is_cordoned=is_cordoned, now=now())
    messages.success(request, f"{node.name} {'gets no new replicas' if is_cordoned else 'may get new replicas again'}.")
    return redirect("console:node", node.pk)

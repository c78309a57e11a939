"""What is served: models and their versions, and the deployments that run them."""

import time
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.db.models import Q
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_POST

from apps.audit.selectors import list_entries_of
from apps.console.access import ConsoleRequest, operators, page
from apps.console.forms import ScaleForm
from apps.console.links import page_links
from apps.console.lists import csv_answer, is_csv, list_page, sorted_rows
from apps.console.policies.snippets import api_call, apply_line, cli_line
from apps.console.policies.split import shares_of
from apps.console.rendering import attempt, render_page
from apps.console.selectors.live import read_frame, read_logs
from apps.console.selectors.rollouts import analyse, course_of
from apps.console.usage_query import read_text
from apps.deployments.models import Deployment
from apps.deployments.selectors import (
    get_deployment,
    list_deployment_events,
    list_deployments,
    list_replicas,
)
from apps.deployments.services.deployments import scale_deployment
from apps.registry.models import Model
from apps.registry.selectors import list_models, list_versions
from apps.routing.selectors.routes import list_routes
from apps.usage.policies.pricing import ListPrice, usd_from_pico
from apps.usage.selectors.prices import get_prices_in_force

TOKENS_PER_PRICE = 1_000_000
COLUMNS = {
    "name": "name",
    "version": "version__model__name",
    "engine": "version__engine",
    "ready": "ready_count",
    "created": "created_at",
}
CSV = {
    "deployment": lambda each: each.name,
    "version": lambda each: str(each.version),
    "engine": lambda each: each.version.engine,
    "replicas_wanted": lambda each: each.wanted_count,
    "replicas_ready": lambda each: each.ready_count,
    "requests_at_once": lambda each: each.max_running_requests,
    "created_at": lambda each: each.created_at,
}


@page(operators)
def models(request: ConsoleRequest) -> HttpResponseBase:
    search = read_text(request.GET, "q")
    listing = list_page(list_models().filter(name__icontains=search), request.GET, {"name": "name"}, default="name")
    versions = [version for model in listing.rows for version in model.versions.all()]
    prices = get_prices_in_force(version_ids=[version.pk for version in versions], now=now())
    deployments = list(list_deployments())
    context = {
        "models": [{"model": each, "rows": _version_rows(each, prices, deployments)} for each in listing.rows],
        "listing": listing,
        "search": search,
    }
    return render_page(request, "models.html", context)


def _version_rows(
    model: Model, prices: Mapping[UUID, ListPrice | None], deployments: list[Deployment]
) -> list[dict[str, Any]]:
    return [
        {
            "version": version,
            "price": _per_million(prices[version.pk]),
            "deployments": [deployment for deployment in deployments if deployment.version_id == version.pk],
        }
        for version in model.versions.all()
    ]


@page(operators)
def deployments(request: ConsoleRequest) -> HttpResponseBase:
    search, traffic = read_text(request.GET, "q"), _traffic_by_version()
    named = Q(name__icontains=search) | Q(version__model__name__icontains=search)
    found = list_deployments().filter(named)
    if is_csv(request.GET):
        return csv_answer("deployments", CSV, sorted_rows(found, request.GET, COLUMNS, default="name"))
    listing = list_page(found, request.GET, COLUMNS, default="name")
    context = {
        "frame": read_frame(now_s=time.time()),
        "rows": [{"deployment": each, "traffic": traffic.get(each.version_id, [])} for each in listing.rows],
        "listing": listing,
        "search": search,
    }
    return render_page(request, "deployments.html", context)


@page(operators)
def deployment(request: ConsoleRequest, deployment_id: UUID) -> HttpResponseBase:
    found = get_deployment(deployment_id)
    return _render_deployment(request, found, ScaleForm(initial={"replica_count": found.replica_count}))


@page(operators)
@require_POST
def deployment_scale(request: ConsoleRequest, deployment_id: UUID) -> HttpResponseBase:
    found, form = get_deployment(deployment_id), ScaleForm(request.POST)
    scaled = attempt(
        form, lambda: scale_deployment(actor=request.actor, deployment=found, now=now(), **form.cleaned_data)
    )
    if scaled is not None:
        messages.success(request, f"{scaled.name} is on its way; replicas it should have: {scaled.replica_count}.")
        return redirect("console:deployment", scaled.pk)
    return _render_deployment(request, get_deployment(deployment_id), form)


def _render_deployment(request: ConsoleRequest, found: Deployment, form: ScaleForm) -> HttpResponseBase:
    path, course = f"/api/v1/deployments/{found.pk}/", course_of(found)
    context = {
        "frame": read_frame(now_s=time.time()),
        "live_keys": {name: f"deployment.{found.pk}.{name}" for name in ("ready", "running", "waiting")},
        "links": page_links(),
        "deployment": found,
        "replicas": list_replicas(deployment_id=found.pk),
        "course": course,
        "answered": analyse(course, actor=request.actor, now=now()),
        "other_versions": list_versions(model_id=found.version.model_id).exclude(pk=found.version_id),
        "logs": read_logs(list(found.replicas.all())),
        "replica_events": list_deployment_events(found.pk),
        "routes": [route for route in list_routes() if found.version_id in {t.version_id for t in route.targets.all()}],
        "events": list_entries_of(subject_type="deployment", subject_id=str(found.pk)),
        "form": form,
        "scale_cli": cli_line("scale", found.name, "--replicas", str(found.replica_count)),
        "roll_out_api": api_call(
            web_url=settings.WEB_URL, method="PATCH", path=path, body={"version_id": "the version's id"}
        ),
        "roll_out_cli": apply_line({"kind": "Deployment", "name": found.name, "version": f"{found.version}"}),
        "api": api_call(
            web_url=settings.WEB_URL, method="PATCH", path=path, body={"replica_count": found.replica_count}
        ),
    }
    return render_page(request, "deployment.html", context)


def _traffic_by_version() -> dict[UUID, list[dict[str, Any]]]:
    """The share that each version has of the routes it is in."""
    traffic: dict[UUID, list[dict[str, Any]]] = {}
    for route in list_routes():
        targets = list(route.targets.all())
        for target, share in zip(targets, shares_of([target.weight for target in targets]), strict=True):
            traffic.setdefault(target.version_id, []).append({"route": route, "percent": 100 * share.share})
    return traffic


def _per_million(listed: ListPrice | None) -> dict[str, Any] | None:
    """In USD; None where the price book has no line: then what is used waits for a price."""
    if listed is None:
        return None
    price = listed.price
    pico = {"input": price.input_pico_usd, "cached_input": price.cached_input_pico_usd, "output": price.output_pico_usd}
    return {f"{name}_usd": usd_from_pico(value * TOKENS_PER_PRICE) for name, value in pico.items()}

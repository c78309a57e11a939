"""Which version answers which share of a public name, and how a canary is moved."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods

from apps.audit.selectors import list_entries_of
from apps.console.access import ConsoleRequest, operators, page
from apps.console.lists import list_page
from apps.console.policies.snippets import api_call, apply_line
from apps.console.policies.split import changes_between, changes_of_membership, changes_of_places, shares_of
from apps.console.rendering import attempt, render_page
from apps.console.serving_forms import RouteForm, WeightsForm
from apps.console.usage_query import read_text
from apps.registry.models import ModelVersion
from apps.registry.selectors import list_versions
from apps.routing.models import Route
from apps.routing.selectors.routes import get_route, list_routes
from apps.routing.selectors.status import get_snapshot_status
from apps.routing.services.routes import create_route, set_canary_weights

ALL = 100
NEW_ROUTE = {
    "title": "New route",
    "question": "Which public name leads to which version?",
    "button": "Open the route",
    "list_url": "console:routes",
    "list_label": "Routes",
}


@page(operators)
def routes(request: ConsoleRequest) -> HttpResponseBase:
    search = read_text(request.GET, "q")
    found = list_routes().filter(public_name__icontains=search)
    listing = list_page(found, request.GET, {"name": "public_name", "created": "created_at"}, default="name")
    context = {
        "rows": [{"route": route, "targets": _targets_of(route)} for route in listing.rows],
        "listing": listing,
        "search": search,
        "snapshot": get_snapshot_status(),
    }
    return render_page(request, "routes.html", context)


@page(operators)
@require_http_methods(["GET", "HEAD", "POST"])
def route(request: ConsoleRequest, route_id: UUID) -> HttpResponseBase:
    """Posted once it shows what the weights would do; posted again with `confirmed` it is done."""
    found = get_route(route_id)
    newcomers = _newcomers(found)
    form = WeightsForm(request.POST or None, targets=list(found.targets.all()), newcomers=newcomers)
    if "confirmed" in request.POST and attempt(form, lambda: _set_weights(request, found, form)) is not None:
        messages.success(request, f"{found.public_name} is split anew; gateways act on it within a second.")
        return redirect("console:route", found.pk)
    changes = _changes(found, form, newcomers) if form.is_valid() else None
    return render_page(request, "route.html", _context(found, form, changes))


@page(operators)
@require_http_methods(["GET", "HEAD", "POST"])
def route_new(request: ConsoleRequest) -> HttpResponseBase:
    form = RouteForm(request.POST or None)
    made = attempt(form, lambda: _create(request, form))
    if made is not None:
        messages.success(request, f"{made.public_name} is a public name now; gateways know it within two seconds.")
        return redirect("console:route", made.pk)
    body = {"public_name": "chat", "targets": [{"version_id": "…", "weight": 100}]}
    api = api_call(web_url=settings.WEB_URL, method="POST", path="/api/v1/routes/", body=body)
    cli = apply_line({"kind": "Route", "name": "chat", "targets": [{"version": "model:v1", "weight": ALL}]})
    return render_page(request, "new.html", {**NEW_ROUTE, "form": form, "api": api, "cli": cli})


def _create(request: ConsoleRequest, form: RouteForm) -> Route:
    weights = {form.cleaned_data["version"].pk: ALL}
    return create_route(actor=request.actor, public_name=form.cleaned_data["public_name"], weights=weights, now=now())


def _newcomers(found: Route) -> list[ModelVersion]:
    """Versions of the route's task that are not in it."""
    targets = list(found.targets.all())
    tasks = {target.version.model.task for target in targets}
    others = list_versions().exclude(pk__in=[target.version_id for target in targets])
    return list(others.filter(model__task__in=tasks))


def _changes(found: Route, form: WeightsForm, newcomers: list[ModelVersion]) -> list[dict[str, str]]:
    asked = form.weights
    joining = {each.pk: str(each) for each in newcomers if each.pk in asked}
    names = {target.version_id: str(target.version) for target in found.targets.all()} | joining
    weights = {target.version_id: target.weight for target in found.targets.all()}
    places = [target.version_id for target in found.alternatives]
    membership = changes_of_membership(names, weights, asked)
    return membership + changes_between(names, weights, asked) + changes_of_places(names, places, form.alternatives)


def _set_weights(request: ConsoleRequest, found: Route, form: WeightsForm) -> Route:
    return set_canary_weights(
        actor=request.actor, route_id=found.pk, weights=form.weights, alternatives=form.alternatives, now=now()
    )


def _context(found: Route, form: WeightsForm, changes: list[dict[str, str]] | None) -> dict[str, Any]:
    weights = form.weights if changes is not None else {t.version_id: t.weight for t in found.targets.all()}
    places = form.alternatives if changes is not None else [target.version_id for target in found.alternatives]
    body = {
        "targets": [{"version_id": str(version_id), "weight": weight} for version_id, weight in weights.items()],
        "alternatives": [str(version_id) for version_id in places],
    }
    return {
        "route": found,
        "targets": _targets_of(found, form),
        "form": form,
        "changes": changes,
        "snapshot": get_snapshot_status(),
        "events": list_entries_of(subject_type="route", subject_id=str(found.pk)),
        "api": api_call(web_url=settings.WEB_URL, method="PATCH", path=f"/api/v1/routes/{found.pk}/", body=body),
    }


def _targets_of(found: Route, form: WeightsForm | None = None) -> list[dict[str, Any]]:
    targets = list(found.targets.all())
    shares = shares_of([target.weight for target in targets])
    return [
        {
            "target": target,
            "share": share,
            "field": form[f"weight_{target.version_id}"] if form else None,
            "place": form[f"stands_in_{target.version_id}"] if form else None,
            "goes": form[f"goes_{target.version_id}"] if form else None,
            "percent": 100 * share.share,
            "offset": 100 * share.offset,
        }
        for target, share in zip(targets, shares, strict=True)
    ]

"""New models and versions: what a version would need, and whether it fits this fleet, before it is registered."""

from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods

from apps.console.access import ConsoleRequest, operators, page
from apps.console.policies.snippets import api_call, apply_line
from apps.console.rendering import attempt, render_page
from apps.console.serving_forms import ModelForm, VersionForm
from apps.console.views.placing import places_of
from apps.placement.services.preview import preview_deployment
from apps.registry.models import Model, ModelVersion
from apps.registry.policies.labels import next_label
from apps.registry.selectors import get_model
from apps.registry.services import create_model, create_version, draft_version

MAX_API_CHARACTERS = 4000
NEW_MODEL = {
    "title": "New model",
    "question": "What will people ask for, and what does it answer with?",
    "button": "Register the model",
    "list_url": "console:models",
    "list_label": "Models",
}


@page(operators)
@require_http_methods(["GET", "HEAD", "POST"])
def model_new(request: ConsoleRequest) -> HttpResponseBase:
    form = ModelForm(request.POST or None)
    made = attempt(form, lambda: create_model(actor=request.actor, now=now(), **form.cleaned_data))
    if made is not None:
        messages.success(request, f"{made.name} is registered. Next: its first version.")
        return redirect("console:version_new", made.pk)
    body = {"name": "llama-3-8b", "task": "generate"}
    api = api_call(web_url=settings.WEB_URL, method="POST", path="/api/v1/models/", body=body)
    cli = apply_line({"kind": "Model", **body})
    return render_page(request, "new.html", {**NEW_MODEL, "form": form, "api": api, "cli": cli})


@page(operators)
@require_http_methods(["GET", "HEAD", "POST"])
def version_new(request: ConsoleRequest, model_id: UUID) -> HttpResponseBase:
    """Posted once it shows what the version needs and where it would fit; posted again with `confirmed` it is done."""
    model = get_model(model_id)
    form = VersionForm(request.POST or None, initial={"label": _label_for(model)})
    if "confirmed" in request.POST:
        made = attempt(form, lambda: create_version(actor=request.actor, model=model, now=now(), **form.values))
        if made is not None:
            messages.success(request, f"{made} is registered. Next: deploy it.")
            return redirect("console:version", made.pk)
    drafted = attempt(form, lambda: draft_version(model=model, now=now(), **form.values))
    return render_page(request, "version_new.html", _context(model, form, drafted))


def _label_for(model: Model) -> str:
    return next_label(version.label for version in model.versions.all())


def _context(model: Model, form: VersionForm, drafted: ModelVersion | None) -> dict[str, Any]:
    preview = preview_deployment(version=drafted, now=now()) if drafted is not None else None
    example = {"label": _label_for(model), "engine": "vllm", "source": "…", "served_name": "…"}
    body = form.values if drafted is not None else example
    api = api_call(web_url=settings.WEB_URL, method="POST", path=f"/api/v1/models/{model.pk}/versions/", body=body)
    return {
        "model": model,
        "form": form,
        "version": drafted,
        "preview": preview,
        "places": places_of(preview) if preview else [],
        "need": preview.need if preview else None,
        "api": api if len(api) <= MAX_API_CHARACTERS else f"{api[:MAX_API_CHARACTERS]}…",
    }

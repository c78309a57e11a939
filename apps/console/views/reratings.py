"""Re-rating: what pricing a stretch of time anew would change for whom, and doing it."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from apps.audit.selectors import list_entries_of
from apps.common.errors import ConflictError
from apps.console.access import ConsoleRequest, page
from apps.console.finance_forms import ReratingForm
from apps.console.rendering import attempt, render_page, sentence
from apps.tenants.matrix import Permission
from apps.tenants.selectors import name_tenants
from apps.usage.models import Rerating
from apps.usage.policies.pricing import usd_from_pico
from apps.usage.selectors.reratings import get_rerating, list_reratings, sum_figures
from apps.usage.services.rerating import NOBODY, apply_rerating, cancel_rerating, start_rerating

SHOWN = 100
Decide = Callable[..., Rerating]


@page(Permission.SET_PRICES)
@require_http_methods(["GET", "HEAD", "POST"])
def reratings(request: ConsoleRequest) -> HttpResponseBase:
    form = ReratingForm(request.POST or None)
    started = attempt(form, lambda: _start(request, form))
    if started is not None:
        return redirect("console:rerating", started.pk)
    return render_page(request, "reratings.html", {"form": form, "rows": list_reratings()[:SHOWN]})


def _start(request: ConsoleRequest, form: ReratingForm) -> Rerating:
    data, moment = form.cleaned_data, now()
    return start_rerating(
        actor=request.actor, start=data["start"], end=data["end"] or moment, reason=data["reason"], now=moment
    )


@page(Permission.SET_PRICES)
@require_safe
def rerating(request: ConsoleRequest, rerating_id: UUID) -> HttpResponseBase:
    found = get_rerating(rerating_id)
    lines = _lines_of(found)
    totals = sum_figures(found.figures)
    context = {
        "rerating": found,
        "lines": lines,
        "totals": totals | {"change_usd": totals["after_usd"] - totals["before_usd"]} if lines else None,
        "events": list_entries_of(subject_type="rerating", subject_id=str(found.pk)),
    }
    return render_page(request, "rerating.html", context)


@page(Permission.SET_PRICES)
@require_POST
def rerating_apply(request: ConsoleRequest, rerating_id: UUID) -> HttpResponseBase:
    return _decided(request, rerating_id, apply_rerating, "is being applied.")


@page(Permission.SET_PRICES)
@require_POST
def rerating_cancel(request: ConsoleRequest, rerating_id: UUID) -> HttpResponseBase:
    return _decided(request, rerating_id, cancel_rerating, "is cancelled; nothing has changed.")


def _decided(request: ConsoleRequest, rerating_id: UUID, decide: Decide, done: str) -> HttpResponseBase:
    """Back to its page, which shows how it stands where somebody else decided first."""
    found = get_rerating(rerating_id)
    try:
        decide(actor=request.actor, rerating=found, now=now())
    except ConflictError as error:
        messages.error(request, sentence(error.message))
    else:
        messages.success(request, f"Re-rating {found.number} {done}")
    return redirect("console:rerating", found.pk)


def _lines_of(found: Rerating) -> list[dict[str, Any]]:
    """The greatest change first."""
    names = name_tenants({UUID(tenant_id) for tenant_id in found.figures if tenant_id != NOBODY})
    lines = []
    for tenant_id, figures in found.figures.items():
        before, after = (usd_from_pico(figures[f"{when}_pico_usd"]) for when in ("before", "after"))
        name = names.get(UUID(tenant_id), tenant_id) if tenant_id != NOBODY else ""
        line = {"tenant": name, "before_usd": before, "after_usd": after, "change_usd": after - before}
        lines.append(line | {"records": figures["records"], "changed": figures["changed"]})
    return sorted(lines, key=lambda line: -abs(line["change_usd"]))

"""What another policy, another fleet or more load would have done: experiments on the simulator, side by side."""

from typing import Any
from uuid import UUID

from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_http_methods, require_safe

from apps.common.ids import read_uuid
from apps.console.access import ConsoleRequest, operators, page
from apps.console.lab_forms import ExperimentForm
from apps.console.rendering import attempt, render_page
from apps.routing.models import PolicyRun
from apps.routing.selectors.experiments import get_run, list_runs
from apps.routing.services.experiments import request_run
from apps.tenants.selectors import name_tenants

RUNS_SHOWN = 20
BEST_IS_LOW = {"usd_per_request", "usd_per_workflow", "replicas_needed"}
COMPARED = ("in_slo", "goodput_per_s", "usd_per_request", "usd_per_workflow", "replicas_needed")


@page(operators)
@require_http_methods(["GET", "HEAD", "POST"])
def lab(request: ConsoleRequest) -> HttpResponseBase:
    form = ExperimentForm(request.POST or None, request.FILES or None)
    run = attempt(
        form,
        lambda: request_run(actor=request.actor, experiment=form.experiment(), now=now(), recording=form.uploaded()),
    )
    if run is not None:
        return redirect("console:lab_run", run_id=run.pk)
    status = 422 if form.is_bound else 200
    return render_page(request, "lab.html", {"form": form, "runs": list_runs()[:RUNS_SHOWN]}, status=status)


@page(operators)
@require_safe
def lab_run(request: ConsoleRequest, run_id: UUID) -> HttpResponseBase:
    run = get_run(run_id)
    context = {
        "run": run,
        "percent": round(100 * run.progress),
        "rows": [_row(summary, best=_best(run)) for summary in run.summaries],
        "classes": _attained(run, "by_class"),
        "tenants": _with_names(_attained(run, "by_tenant")),
    }
    return render_page(request, "lab_run.html", context)


def _row(summary: dict[str, Any], best: dict[str, Any]) -> dict[str, Any]:
    figures = _figures(summary)
    return {
        "summary": summary,
        "best": [name for name in COMPARED if figures[name] is not None and figures[name] == best[name]],
    }


def _figures(summary: dict[str, Any]) -> dict[str, Any]:
    return {name: summary["scores"].get(name, summary.get(name)) for name in COMPARED}


def _best(run: PolicyRun) -> dict[str, Any]:
    """The best figure of each column, where there is something to compare."""
    best: dict[str, Any] = dict.fromkeys(COMPARED)
    for name in COMPARED if len(run.summaries) > 1 else ():
        known = [figure for figure in (_figures(summary)[name] for summary in run.summaries) if figure is not None]
        if known:
            best[name] = min(known) if name in BEST_IS_LOW else max(known)
    return best


def _attained(run: PolicyRun, what: str) -> list[dict[str, Any]]:
    """A row per class or tenant, with what each policy reached for it."""
    if not run.summaries:
        return []
    shares = [{each["name"]: each["share"] for each in summary[what]} for summary in run.summaries]
    return [
        {**each, "shares": [of_policy.get(each["name"]) for of_policy in shares]} for each in run.summaries[0][what]
    ]


def _with_names(attained: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Usage records know tenants by their ids; traces have names of their own."""
    ids = {found for each in attained if (found := read_uuid(each["name"]))}
    names = {str(found): name for found, name in name_tenants(ids).items()}
    return [{**each, "name": names.get(each["name"], each["name"])} for each in attained]

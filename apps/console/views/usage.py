"""What was used and what it cost, by whatever it is made of, down to the records."""

from decimal import Decimal
from typing import Any

from django.http import HttpResponseBase
from django.utils.timezone import now

from apps.common.actors import Actor
from apps.common.one_look import one_look
from apps.console.access import ConsoleRequest, page
from apps.console.policies.columns import Chart, stack_by_day
from apps.console.policies.periods import COMMON_ZONES, LABELS
from apps.console.rendering import render_page
from apps.console.usage_query import UsageQuery, read_usage_query
from apps.registry.selectors import name_versions
from apps.tenants.matrix import Permission
from apps.tenants.policies import has_every_tenant
from apps.tenants.selectors import list_tenants, name_keys_for, name_users_for
from apps.usage.selectors.reports import UsageRow, rank_usage, report_usage, sum_usage
from apps.usage.selectors.reratings import list_under_way

GROUP_LABELS = {
    "model": "Model",
    "version": "Version",
    "user": "User",
    "key": "Key",
    "end_user": "End user",
    "workflow": "Workflow",
    "day": "Day",
}
ALL_GROUP_LABELS = {"tenant": "Tenant", **GROUP_LABELS}
SORTS = {
    "request_count": "Requests",
    "unsuccessful_count": "Not completed",
    "input_tokens": "Input tokens",
    "cached_input_tokens": "Cached",
    "output_tokens": "Output tokens",
    "cost_usd": "Cost",
}
MOST_ROWS = 1000  # there may be very many end users and workflows
# What one click on a row of a group leads to: the same page, narrowed to that row, by the next finer group.
FINER_GROUP = {"tenant": "user", "user": "model", "model": "user"}


@page(Permission.SEE_TENANT)
@one_look()
def usage(request: ConsoleRequest) -> HttpResponseBase:
    query = read_usage_query(request.GET, now=now())
    scope, group = query.scope(request.actor), _group(request)
    sort = _sort(request, group)
    if group == "day":
        rows = report_usage(scope=scope, group_by=[group], zone=query.period.zone)
    else:
        rows = rank_usage(scope=scope, group=group, by=sort, size=MOST_ROWS)
    context = {
        "query": query,
        "group": group,
        "groups": _groups(request),
        "group_label": ALL_GROUP_LABELS[group],
        "rows": [_shown(row, group) for row in _ranked(rows, sort)],
        "is_cut": len(rows) == MOST_ROWS,
        "sort": sort,
        "sorts": SORTS,
        "totals": sum_usage(scope=scope),
        "before": sum_usage(scope=query.scope(request.actor, query.period.before)),
        "chart": _chart(request, query),
        "ranges": LABELS,
        "zones": COMMON_ZONES,
        "tenants": list_tenants(actor=request.actor),
        "narrowed": _narrowed(query, request.actor),
        "reratings_under_way": list_under_way(query.period.start, query.period.end),
        "csv_url": f"/api/v1/usage/report.csv?{query.as_api_query(group_by=_csv_groups(group))}",
        "sees_all": has_every_tenant(request.actor),
    }
    return render_page(request, "usage.html", context)


def _groups(request: ConsoleRequest) -> dict[str, str]:
    return ALL_GROUP_LABELS if has_every_tenant(request.actor) else GROUP_LABELS


def _group(request: ConsoleRequest) -> str:
    groups = _groups(request)
    asked = request.GET.get("by", "")
    return asked if asked in groups else next(iter(groups))


def _csv_groups(group: str) -> str:
    return ",".join(dict.fromkeys(["day", group]))


def _sort(request: ConsoleRequest, group: str) -> str:
    """Days are read in order, everything else by what it costs, unless the reader chose a column."""
    asked = request.GET.get("sort", "")
    return asked if asked in SORTS else "day" if group == "day" else "cost_usd"


def _ranked(rows: list[UsageRow], sort: str) -> list[UsageRow]:
    """Biggest first; equals by name, so that the order stands still."""
    named = sorted(rows, key=lambda row: sorted(row.names.items()))
    return sorted(named, key=lambda row: getattr(row, sort), reverse=True)


def _shown(row: UsageRow, group: str) -> dict[str, Any]:
    narrow = {"first": row.day, "last": row.day, "range": None} if group == "day" else {group: row.ids[group]}
    return {
        "name": str(row.day) if group == "day" else row.names[group],
        "narrow": narrow,
        "finer": FINER_GROUP.get(group),
        "sums": row,
    }


def _chart(request: ConsoleRequest, query: UsageQuery) -> Chart | None:
    if len(query.period.days) == 1:
        return None
    rows = report_usage(scope=query.scope(request.actor), group_by=["day", "model"], zone=query.period.zone)
    values: dict[tuple[Any, str], Decimal] = {(row.day, row.names["model"]): row.cost_usd for row in rows}
    return stack_by_day(query.period.days, values)


def _narrowed(query: UsageQuery, actor: Actor) -> list[dict[str, str]]:
    """The filters that no form field of the page shows, to be taken away one by one."""
    shown = []
    if query.user_id:
        names = name_users_for(actor=actor, ids={query.user_id})
        shown.append({"param": "user", "label": f"user {names.get(query.user_id, query.user_id)}"})
    if query.key_id:
        names = name_keys_for(actor=actor, ids={query.key_id})
        shown.append({"param": "key", "label": f"key {names.get(query.key_id, query.key_id)}"})
    for param, text in (("model", query.public_model), ("end_user", query.end_user), ("workflow", query.workflow_id)):
        if text:
            shown.append({"param": param, "label": f"{param.replace('_', ' ')} {text}"})
    if query.version_id:
        shown.append(
            {"param": "version", "label": f"version {name_versions({query.version_id}).get(query.version_id, '')}"}
        )
    return shown

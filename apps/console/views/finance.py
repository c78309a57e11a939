"""What serving really costs, what a success costs, statements, files for other tools, and whether every record came."""

import re
from datetime import date
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpResponseBase
from django.shortcuts import redirect
from django.utils.timezone import now
from django.views.decorators.http import require_POST, require_safe

from apps.common.errors import InvalidInputError
from apps.common.one_look import one_look
from apps.console.access import ConsoleRequest, page
from apps.console.policies.periods import COMMON_ZONES, LABELS, zone_named
from apps.console.rendering import render_page
from apps.console.usage_query import UsageQuery, read_id, read_usage_query
from apps.fleet.selectors import name_nodes
from apps.tenants.matrix import Permission
from apps.tenants.policies import has_every_tenant
from apps.tenants.selectors import list_billed_tenants, list_tenants
from apps.usage.selectors import accelerators, outcomes
from apps.usage.selectors.health import get_quarantined, get_record_health, health_since, list_quarantined
from apps.usage.selectors.reratings import list_under_way
from apps.usage.selectors.statements import get_statement
from apps.usage.services.quarantine import release_record

COST_GROUPS = {"tenant": "Tenant", "version": "Version", "model": "Route"}
OUTCOME_GROUPS = {"version": "Version", "model": "Route", "tenant": "Tenant"}
SHOWN = 100
BOTH = ("CSV", "Parquet")
FILES = (
    ("Records", "a request", "records", BOTH, ""),
    ("Sums by day", "a day, tenant, user and model", "report", BOTH, "day,tenant,user,model"),
    ("Sums by hour", "an hour, tenant and model", "report", BOTH, "hour,tenant,model"),
    ("FOCUS 1.2", "a charge: a UTC day, tenant, version and key, as FinOps specifies it", "focus", BOTH, ""),
    ("Successful tasks", "a model version", "outcomes", ("CSV",), "version"),
)
_MONTH = re.compile(r"(20\d\d|21\d\d)-(0[1-9]|1[0-2])")


@page(Permission.SET_PRICES)
@require_safe
@one_look()
def cost(request: ConsoleRequest) -> HttpResponseBase:
    query, group = read_usage_query(request.GET, now=now()), _chosen(request, COST_GROUPS)
    report = accelerators.report_cost(scope=query.scope(request.actor), group_by=group)
    billed_usd = sum((row.billed_usd for row in report.rows), Decimal())
    context = _context(request, query, group, COST_GROUPS) | {
        "report": report,
        "used_ratio": report.used_s / report.available_s if report.available_s else None,
        "billed_usd": billed_usd,
        "margin_usd": billed_usd - report.cost_usd,
        "csv_url": f"/api/v1/usage/cost.csv?{query.as_api_query(group_by=group)}",
    }
    return render_page(request, "cost.html", context)


@page(Permission.SEE_TENANT)
@require_safe
@one_look()
def outcome_report(request: ConsoleRequest) -> HttpResponseBase:
    query, group = read_usage_query(request.GET, now=now()), _chosen(request, OUTCOME_GROUPS)
    scope = query.scope(request.actor)
    context = _context(request, query, group, OUTCOME_GROUPS) | {
        "rows": outcomes.report_outcomes(scope=scope, group_by=group),
        "totals": outcomes.sum_outcomes(scope=scope),
        "csv_url": f"/api/v1/usage/outcomes.csv?{query.as_api_query(group_by=group)}",
    }
    return render_page(request, "outcomes.html", context)


@page(Permission.SEE_TENANT)
@require_safe
@one_look()
def statements(request: ConsoleRequest) -> HttpResponseBase:
    tenants, zone, moment = list(list_billed_tenants(actor=request.actor)), zone_named(request.GET.get("tz", "")), now()
    first_day = _month(request.GET.get("month", "")) or moment.astimezone(zone).date().replace(day=1)
    tenant_id = read_id(request.GET, "tenant") or (tenants[0].pk if tenants else None)
    statement = tenant_id and get_statement(
        actor=request.actor, tenant_id=tenant_id, first_day=first_day, zone=zone, now=moment
    )
    pdf = f"/api/v1/usage/statement.pdf?tenant={tenant_id}&month={first_day:%Y-%m}&zone={zone.key}"
    context = {"tenants": tenants, "statement": statement, "month": first_day, "zone": zone.key, "pdf_url": pdf}
    return render_page(request, "statements.html", context | {"zones": COMMON_ZONES, "tenant_id": tenant_id})


@page(Permission.SEE_TENANT)
@require_safe
def exports(request: ConsoleRequest) -> HttpResponseBase:
    query = read_usage_query(request.GET, now=now())
    query.scope(request.actor)
    return render_page(request, "exports.html", _context(request, query, "", {}) | {"files": _files(query)})


def _files(query: UsageQuery) -> list[dict[str, Any]]:
    return [
        {"what": what, "row": row, "links": [(kind, _file_url(query, name, kind, groups)) for kind in kinds]}
        for what, row, name, kinds, groups in FILES
    ]


def _file_url(query: UsageQuery, name: str, kind: str, groups: str) -> str:
    return f"/api/v1/usage/{name}.{kind.lower()}?{query.as_api_query(group_by=groups)}"


@page(Permission.SET_PRICES)
@require_safe
def record_health(request: ConsoleRequest) -> HttpResponseBase:
    health = get_record_health(since=health_since(now()))
    rows = [{"row": row, "url": f"/api/v1/usage/quarantine/{row.pk}/"} for row in list_quarantined()[:SHOWN]]
    names = name_nodes({row.source.node_id for row in health.sources})
    sources = [(names.get(row.source.node_id, "a removed node"), row) for row in health.sources]
    return render_page(request, "record_health.html", {"health": health, "sources": sources, "quarantined": rows})


@page(Permission.SET_PRICES)
@require_POST
def quarantined_release(request: ConsoleRequest, quarantined_id: UUID) -> HttpResponseBase:
    release_record(actor=request.actor, quarantined=get_quarantined(quarantined_id), now=now())
    messages.success(request, "The record is stored, and counts.")
    return redirect("console:record_health")


def _chosen(request: ConsoleRequest, groups: dict[str, str]) -> str:
    asked = request.GET.get("by", "")
    return asked if asked in groups else next(iter(groups))


def _context(request: ConsoleRequest, query: UsageQuery, group: str, groups: dict[str, str]) -> dict[str, Any]:
    return {
        "query": query,
        "group": group,
        "groups": groups,
        "group_label": groups.get(group, ""),
        "ranges": LABELS,
        "zones": COMMON_ZONES,
        "tenants": list_tenants(actor=request.actor),
        "reratings_under_way": list_under_way(query.period.start, query.period.end),
        "sees_all": has_every_tenant(request.actor),
    }


def _month(text: str) -> date | None:
    if text and not _MONTH.fullmatch(text):
        raise InvalidInputError("a month is written like 2026-11", fields={"month": "is not a month"})
    return date.fromisoformat(f"{text}-01") if text else None

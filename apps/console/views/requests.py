"""Which requests came, how each went, and what one of them did and cost."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from django.http import HttpResponseBase, StreamingHttpResponse
from django.utils.timezone import now
from django.views.decorators.http import require_safe

from apps.common.csv_text import csv_parts
from apps.common.one_look import in_one_look
from apps.console.access import ConsoleRequest, page
from apps.console.lists import Listing, Sorting, list_page, read_sorting
from apps.console.policies.decisions import Panel, endpoint_ids_of, panel_of
from apps.console.policies.periods import LABELS
from apps.console.policies.phases import phases_of
from apps.console.rendering import render_page
from apps.console.usage_query import UsageQuery, read_id, read_span, read_text, read_usage_query
from apps.deployments.selectors import name_deployments, name_replicas
from apps.fleet.selectors import name_nodes
from apps.registry.selectors import name_versions
from apps.routing.selectors.routes import list_public_models
from apps.telemetry.selectors.decisions import find_decision
from apps.telemetry.selectors.prompts import MAX_SEARCHED, has_prompt, readable_tenants
from apps.telemetry.services.prompts import search_prompts
from apps.tenants.matrix import Permission
from apps.tenants.policies import has_every_tenant
from apps.tenants.selectors import get_tenant, list_tenants, name_keys, name_tenants, name_users
from apps.usage.models import UsageRecord
from apps.usage.selectors.records import count_newer_records, get_record, page_of_records, search_records
from apps.usage.selectors.sums import UsageScope
from apps.usage.serializers.usage import RECORD_FIELDS

NAMERS: dict[str, Callable[[set[UUID]], dict[UUID, str]]] = {
    "tenant_id": name_tenants,
    "user_id": name_users,
    "key_id": name_keys,
    "version_id": name_versions,
    "deployment_id": name_deployments,
    "node_id": name_nodes,
}
CSV_CHUNK_ROWS = 2000
MOST_SORTED = 10_000
COLUMNS = {
    "arrived": "arrived_at",
    "outcome": "outcome",
    "model": "public_model",
    "queue": "queue_ms",
    "ttft": "ttft_ms",
    "total": "total_ms",
    "in": "input_tokens",
    "out": "output_tokens",
    "cost": "cost_usd",
}
NEWEST_FIRST = Sorting("arrived", "arrived_at", is_falling=True)
OUTCOMES = ("completed", "client_left", "rejected", "refused", "failed")


@page(Permission.SEE_TENANT)
@require_safe
def requests(request: ConsoleRequest) -> HttpResponseBase:
    query = read_usage_query(request.GET, now=now())
    filters, before = _filters(request, query), read_id(request.GET, "before")
    listing = _listed(request, query, filters, before)
    readable = readable_tenants(actor=request.actor)
    context = {
        "query": query,
        "span": read_span(request.GET),
        "rows": _named(listing.rows),
        "listing": listing,
        "is_by_time": listing.sorting == NEWEST_FIRST,
        "newest": listing.rows[0].record_id if _waits_for_more(listing) else None,
        "outcome": filters["outcome"],
        "outcomes": OUTCOMES,
        "search": filters["search"],
        "prompt_tenants": readable,
        "words": read_text(request.GET, "prompt"),
        "max_searched": MAX_SEARCHED,
        "ranges": LABELS,
        "tenants": list_tenants(actor=request.actor),
        "models": [name for name, _ in list_public_models()],
        "sees_all": has_every_tenant(request.actor),
    }
    return render_page(request, "requests.html", context)


@page(Permission.SEE_TENANT)
@require_safe
def requests_csv(request: ConsoleRequest) -> HttpResponseBase:
    """What the page's filters leave, the newest first. There is no prompt in a record, so there is none here."""
    query = read_usage_query(request.GET, now=now())
    records = search_records(scope=_scope(request, query), **_filters(request, query))
    rows = in_one_look(records.values_list(*RECORD_FIELDS), chunk_rows=CSV_CHUNK_ROWS)
    answer = StreamingHttpResponse(csv_parts(RECORD_FIELDS, rows), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="requests.csv"'
    return answer


@page(Permission.SEE_TENANT)
@require_safe
def requests_newer(request: ConsoleRequest) -> HttpResponseBase:
    """How many have come since the list was read; they wait behind a link, so that no row moves."""
    query, than = read_usage_query(request.GET, now=now()), read_id(request.GET, "than")
    count = count_newer_records(scope=_scope(request, query), than=than) if than else 0
    return render_page(request, "requests_newer.html", {"count": count})


@page(Permission.SEE_TENANT)
@require_safe
def record(request: ConsoleRequest, record_id: UUID) -> HttpResponseBase:
    found = get_record(actor=request.actor, record_id=record_id)
    phases = phases_of(queue_ms=found.queue_ms, ttft_ms=found.ttft_ms, total_ms=found.total_ms)
    context = {
        **_named([found])[0],
        "phases": phases,
        "decision": _decision_on(request, found),
        "has_prompt": has_prompt(actor=request.actor, record_id=found.record_id),
    }
    return render_page(request, "record.html", context)


def _listed(
    request: ConsoleRequest, query: UsageQuery, filters: dict[str, Any], before: UUID | None
) -> Listing[UsageRecord]:
    """By time through all there are; by another column the newest MOST_SORTED, as no index has them in its order."""
    scope = _scope(request, query)
    if read_sorting(request.GET, COLUMNS, default="-arrived") == NEWEST_FIRST:
        found, has_more = page_of_records(scope=scope, before=before, **filters)
        return Listing(found, NEWEST_FIRST, found[-1].record_id if has_more else None, before is None)
    newest = search_records(scope=scope, **filters).values("record_id")[:MOST_SORTED]
    among = UsageRecord.objects.filter(record_id__in=newest, arrived_at__gte=scope.start, arrived_at__lt=scope.end)
    return list_page(among, request.GET, COLUMNS, default="-arrived", identity="record_id")


def _scope(request: ConsoleRequest, query: UsageQuery) -> UsageScope:
    return read_span(request.GET).of(query.scope(request.actor))


def _waits_for_more(listing: Listing[UsageRecord]) -> bool:
    return bool(listing.rows) and listing.is_first and listing.sorting == NEWEST_FIRST


def _filters(request: ConsoleRequest, query: UsageQuery) -> dict[str, Any]:
    return {
        "outcome": read_text(request.GET, "outcome"),
        "search": read_text(request.GET, "q"),
        "among": _with_words(request, query, read_text(request.GET, "prompt")),
    }


def _with_words(request: ConsoleRequest, query: UsageQuery, words: str) -> set[UUID] | None:
    """Records of prompts with these words, of the tenants whose prompts the reader may read; None asks for no words."""
    if not words:
        return None
    asked = [each for each in readable_tenants(actor=request.actor) if query.tenant_id in {None, each}]
    span = {"start": query.period.start, "end": query.period.end}
    tenants = [get_tenant(actor=request.actor, tenant_id=each) for each in asked]
    found = [search_prompts(actor=request.actor, tenant=tenant, words=words, now=now(), **span) for tenant in tenants]
    return set().union(*found)


def _decision_on(request: ConsoleRequest, found: UsageRecord) -> Panel | None:
    """Where engines stand is the operators' business."""
    if found.tenant_id is None:
        return None
    decision = find_decision(tenant_id=found.tenant_id, request_id=found.request_id, arrived_at=found.arrived_at)
    if decision is None:
        return None
    return panel_of(decision, name_replicas(endpoint_ids_of(decision)) if request.actor.is_operator else {})


def _named(records: list[UsageRecord]) -> list[dict[str, Any]]:
    """Each record with the names its ids have now."""
    names = {field: namer(_ids(records, field)) for field, namer in NAMERS.items()}
    return [{"record": found} | _names_of(found, names) for found in records]


def _names_of(found: UsageRecord, names: dict[str, dict[UUID, str]]) -> dict[str, Any]:
    return {field.replace("_id", "_name"): known.get(getattr(found, field)) for field, known in names.items()}


def _ids(records: list[UsageRecord], name: str) -> set[UUID]:
    return {value for found in records if (value := getattr(found, name)) is not None}

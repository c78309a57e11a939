"""Who changed what, when, from what to what."""

from datetime import UTC, date, datetime, time
from types import SimpleNamespace
from typing import Any

from django.http import HttpResponseBase, StreamingHttpResponse
from django.views.decorators.http import require_safe

from apps.audit.models import AuditEntry
from apps.audit.selectors import AuditQuery, in_order, page_of_entries
from apps.common.csv_text import csv_parts
from apps.common.errors import InvalidInputError
from apps.console.access import ConsoleRequest, page
from apps.console.lists import Sorting
from apps.console.rendering import render_page
from apps.console.usage_query import read_id, read_text
from apps.tenants.matrix import Permission
from apps.tenants.selectors import audited_tenants, list_tenants

CSV_ROWS = 10_000


@page(Permission.SEE_AUDIT)
@require_safe
def audit(request: ConsoleRequest) -> HttpResponseBase:
    asked, before = _asked(request), read_id(request.GET, "before")
    sorting = _sorting(request)
    entries, has_more = page_of_entries(asked, before=before, is_oldest_first=not sorting.is_falling)
    context = {
        "rows": [{"entry": entry, "changes": _changes_of(entry)} for entry in entries],
        "next": entries[-1].pk if has_more else None,
        "is_first_page": before is None,
        "asked": asked,
        "listing": SimpleNamespace(sorting=sorting),
        "tenant_id": read_id(request.GET, "tenant"),
        "tenants": list_tenants(actor=request.actor),
    }
    return render_page(request, "audit.html", context)


@page(Permission.SEE_AUDIT)
@require_safe
def audit_csv(request: ConsoleRequest) -> HttpResponseBase:
    """What the page's filters leave, in its order."""
    header = ["at", "actor_name", "action", "subject_type", "subject_id", "subject_name", "tenant_id"]
    entries = in_order(_asked(request), is_oldest_first=not _sorting(request).is_falling)
    rows = entries.values_list(*header)[:CSV_ROWS]
    answer = StreamingHttpResponse(csv_parts(header, rows), content_type="text/csv; charset=utf-8")
    answer["Content-Disposition"] = 'attachment; filename="audit.csv"'
    return answer


def _sorting(request: ConsoleRequest) -> Sorting:
    """By time, falling unless it is asked to rise; by what else one would sort, one filters."""
    return Sorting(name="at", path="at", is_falling=read_text(request.GET, "sort") != "at")


def _asked(request: ConsoleRequest) -> AuditQuery:
    tenant_id = read_id(request.GET, "tenant")
    return AuditQuery(
        tenant_ids=audited_tenants(actor=request.actor, tenant_id=tenant_id),
        actor_id=read_id(request.GET, "actor"),
        action=read_text(request.GET, "action"),
        since=_day(request, "since"),
        until=_day(request, "until"),
        search=read_text(request.GET, "q"),
    )


def _day(request: ConsoleRequest, name: str) -> datetime | None:
    """The start of a day, UTC; the form gives none, or one that exists."""
    text = read_text(request.GET, name)
    try:
        return datetime.combine(date.fromisoformat(text), time(), UTC) if text else None
    except ValueError as error:
        raise InvalidInputError(f"{name} is not a date", fields={name: "is not a date"}) from error


def _changes_of(entry: AuditEntry) -> list[dict[str, Any]]:
    names = dict.fromkeys([*entry.before, *entry.after])
    pairs = [(name, entry.before.get(name), entry.after.get(name)) for name in names]
    return [
        {"name": name.replace("_", " "), "was": was, "becomes": becomes}
        for name, was, becomes in pairs
        if was != becomes
    ]

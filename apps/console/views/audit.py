"""Who changed what, when, from what to what."""

from typing import Any

from django.http import HttpResponseBase
from django.views.decorators.http import require_GET

from apps.audit.models import AuditEntry
from apps.audit.selectors import page_of_entries
from apps.console.access import ConsoleRequest, operators, page
from apps.console.rendering import render_page
from apps.console.usage_query import read_id, read_text


@page(operators)
@require_GET
def audit(request: ConsoleRequest) -> HttpResponseBase:
    search, before = read_text(request.GET, "q"), read_id(request.GET, "before")
    entries, has_more = page_of_entries(search=search, before=before)
    context = {
        "rows": [{"entry": entry, "changes": _changes_of(entry)} for entry in entries],
        "next": entries[-1].pk if has_more else None,
        "is_first_page": before is None,
        "search": search,
    }
    return render_page(request, "audit.html", context)


def _changes_of(entry: AuditEntry) -> list[dict[str, Any]]:
    names = dict.fromkeys([*entry.before, *entry.after])
    pairs = [(name, entry.before.get(name), entry.after.get(name)) for name in names]
    return [
        {"name": name.replace("_", " "), "was": was, "becomes": becomes}
        for name, was, becomes in pairs
        if was != becomes
    ]

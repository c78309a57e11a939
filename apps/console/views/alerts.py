"""What is wrong now, since when, and for whom; and what was, in the last day."""

from django.http import HttpResponseBase
from django.utils.timezone import now
from django.views.decorators.http import require_safe

from apps.console.access import ConsoleRequest, operators, page
from apps.console.rendering import render_page
from apps.console.selectors.alerts import SHOWN, list_alerts_lately, list_alerts_now
from apps.console.usage_query import read_text


@page(operators)
@require_safe
def alerts(request: ConsoleRequest) -> HttpResponseBase:
    moment = now()
    found = list_alerts_now(actor=request.actor, now=moment)
    kind = read_text(request.GET, "kind")
    chosen = [alert for alert in found if kind in {"", alert.kind}]
    context = {
        "now": chosen[:SHOWN],
        "open_count": len(chosen),
        "kind": kind,
        "kinds": sorted({alert.kind for alert in found}),
        "lately": list_alerts_lately(now=moment),
    }
    return render_page(request, "alerts.html", context)

"""What is wrong now, since when, and for whom; and what was, in the last day."""

from django.http import HttpResponseBase
from django.utils.timezone import now
from django.views.decorators.http import require_safe

from apps.console.access import ConsoleRequest, operators, page
from apps.console.rendering import render_page
from apps.console.selectors.alerts import list_alerts_lately, list_alerts_now


@page(operators)
@require_safe
def alerts(request: ConsoleRequest) -> HttpResponseBase:
    moment = now()
    context = {
        "now": list_alerts_now(actor=request.actor, now=moment),
        "lately": list_alerts_lately(now=moment),
    }
    return render_page(request, "alerts.html", context)

"""One engine, and one accelerator: what each is, does and went through."""

import time
from uuid import UUID

from django.http import HttpResponseBase
from django.views.decorators.http import require_safe

from apps.console.access import ConsoleRequest, operators, page
from apps.console.rendering import render_page
from apps.console.selectors.accelerators import list_replicas_on
from apps.console.selectors.live import read_frame, read_logs
from apps.deployments.selectors import get_replica, list_events
from apps.fleet.selectors import get_accelerator

EVENTS_SHOWN = 50


@page(operators)
@require_safe
def replica(request: ConsoleRequest, replica_id: UUID) -> HttpResponseBase:
    found = get_replica(replica_id)
    context = {
        "frame": read_frame(now_s=time.time()),
        "replica": found,
        "only_this": [found],
        "replica_events": list_events(found.pk, limit=EVENTS_SHOWN),
        "logs": read_logs([found]),
        "live_keys": {name: f"replica.{found.pk}.{name}" for name in ("running", "waiting", "kv")},
    }
    return render_page(request, "replica.html", context)


@page(operators)
@require_safe
def accelerator(request: ConsoleRequest, accelerator_id: UUID) -> HttpResponseBase:
    found = get_accelerator(accelerator_id)
    context = {
        "frame": read_frame(now_s=time.time()),
        "accelerator": found,
        "replicas": list_replicas_on(found),
        "live_keys": {name: f"accelerator.{found.pk}.{name}" for name in ("memory", "busy", "temperature", "power")},
    }
    return render_page(request, "accelerator.html", context)

"""What waits and runs where, and what the gateways believe of their engines, tenants and models."""

import time

from django.db.models import Count, Sum
from django.http import HttpResponseBase
from django.views.decorators.http import require_safe

from apps.console.access import ConsoleRequest, operators, page
from apps.console.policies.beliefs import beliefs_of
from apps.console.rendering import render_page
from apps.deployments.selectors import name_replicas
from apps.fleet.selectors import name_nodes
from apps.quotas.selectors import list_policies, list_slo_profiles
from apps.registry.selectors import name_versions
from apps.telemetry.policies import is_stale
from apps.telemetry.selectors.frames import list_frames
from apps.tenants.selectors import name_tenants


@page(operators)
@require_safe
def scheduler(request: ConsoleRequest) -> HttpResponseBase:
    now_s = time.time()
    frames = [frame for frame in list_frames() if not is_stale(frame, now_s)]
    beliefs = beliefs_of([frame.telemetry for frame in frames])
    context = {
        "classes": list_policies()
        .values_list("service_class__name", "service_class__rank")
        .annotate(tenants=Count("pk"), weight=Sum("weight"))
        .order_by("service_class__rank"),
        "profiles": list_slo_profiles(),
        "beliefs": beliefs,
        "nodes": name_nodes(beliefs.node_ids),
        "tenants": name_tenants(beliefs.tenant_ids),
        "versions": name_versions(beliefs.version_ids),
        "replicas": name_replicas({engine.estimate.endpoint_id for engine in beliefs.engines}),
    }
    return render_page(request, "scheduler.html", context)

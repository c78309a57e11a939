"""The first screen: whether anything is wrong, since when, and for whom."""

import json
import time
from typing import Any, TypeVar

from django.db.models import Case, Model, QuerySet, When
from django.http import HttpResponseBase
from django.urls import reverse

from apps.console.access import ConsoleRequest, operators, page
from apps.console.links import page_links
from apps.console.rendering import render_page
from apps.console.selectors.live import read_frame, told_verdict
from apps.console.selectors.picture import tightest_ttft_slo
from apps.deployments.selectors import list_replicas
from apps.fleet.selectors import list_nodes

Row = TypeVar("Row", bound=Model)
ROWS_SHOWN = 10


@page(operators)
def overview(request: ConsoleRequest) -> HttpResponseBase:
    slo, frame = tightest_ttft_slo(), read_frame(now_s=time.time())
    nodes, replicas = list_nodes(), list_replicas()
    context = {
        "frame": frame,
        "verdict": told_verdict(frame.verdict),
        "charts": _charts(slo[1] if slo else None),
        "links": page_links(),
        "nodes": _worst_first(nodes, "online", "name")[:ROWS_SHOWN],
        "node_count": nodes.count(),
        "replicas": _worst_first(replicas, "ready", "deployment__name", "pk")[:ROWS_SHOWN],
        "replica_count": replicas.count(),
    }
    return render_page(request, "overview.html", context)


def _worst_first(rows: QuerySet[Row], well: str, *then: str) -> QuerySet[Row]:
    return rows.order_by(Case(When(state=well, then=1), default=0), *then)


def _charts(ttft_slo_ms: int | None) -> list[dict[str, Any]]:
    return [
        _chart("Requests", "req/s", [("requests_per_s", "answered or refused")]),
        _chart("Tokens", "tok/s", [("output_tokens_per_s", "out"), ("input_tokens_per_s", "in")]),
        _chart("TTFT", "ms", [("ttft_ms_p95", "p95"), ("ttft_ms_p50", "p50")], limit=ttft_slo_ms),
        _chart("In the gateways", "requests", [("running_requests", "running"), ("queued_requests", "queued")]),
    ]


def _chart(title: str, unit: str, lines: list[tuple[str, str]], *, limit: int | None = None) -> dict[str, Any]:
    described = [{"key": key, "label": label} for key, label in lines]
    url = reverse("console:scheduler") if unit == "requests" else f"{reverse('console:requests')}?range=today"
    return {
        "title": title,
        "unit": unit,
        "url": url,
        "lines": described,
        "lines_json": json.dumps(described),
        "limit": limit,
    }

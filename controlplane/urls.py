from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from apps.tenants.access import with_rule
from apps.tenants.matrix import Permission
from controlplane.unknown import UnknownPathView


def healthz(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """That the process answers; nothing about what it depends on, so that a supervisor restarts only what hangs."""
    return HttpResponse("ok\n", content_type="text/plain")


handler400 = "controlplane.unknown.refused"
handler500 = "controlplane.unknown.failed"

_REST = [
    path("", include(f"apps.{app}.urls"))
    for app in (
        "tenants",
        "identity",
        "registry",
        "fleet",
        "quotas",
        "limits",
        "deployments",
        "placement",
        "usage",
        "telemetry",
        "routing",
        "declarations",
    )
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", with_rule(healthz, Permission.OPEN)),
    path("api/v1/", include(_REST)),
    path("api/schema/", with_rule(SpectacularAPIView.as_view(), Permission.OPEN), name="schema"),
    path(
        "api/docs/",
        with_rule(SpectacularSwaggerSplitView.as_view(url_name="schema"), Permission.OPEN),
        name="docs",
    ),
    re_path(r"^api/", with_rule(UnknownPathView.as_view(), Permission.OPEN)),
    path("", include("apps.console.urls")),
]

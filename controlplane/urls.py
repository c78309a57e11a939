from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, URLResolver, include, path, re_path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from controlplane.unknown import UnknownPathView


def healthz(request: HttpRequest) -> HttpResponse:  # noqa: ARG001 - Django's signature
    """That the process answers; nothing about what it depends on, so that a supervisor restarts only what hangs."""
    return HttpResponse("ok\n", content_type="text/plain")


_REST = [
    path("", include(f"apps.{app}.urls"))
    for app in ("tenants", "registry", "fleet", "quotas", "deployments", "usage", "routing")
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("healthz", healthz),
    path("api/v1/", include(_REST)),
    path("api/schema/", SpectacularAPIView.as_view(), name="schema"),
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="schema"), name="docs"),
    re_path(r"^api/.*$", UnknownPathView.as_view()),
    path("", include("apps.console.urls")),
]

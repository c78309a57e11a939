from django.urls import path

from apps.routing import api

urlpatterns = [
    path("routes/", api.RoutesView.as_view()),
    path("routes/<uuid:route_id>/", api.RouteView.as_view()),
    path("public-models/", api.PublicModelsView.as_view()),
    path("snapshot/", api.SnapshotView.as_view()),
    path("overview/", api.OverviewView.as_view()),
]

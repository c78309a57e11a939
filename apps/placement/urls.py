from django.urls import path

from apps.placement import api

urlpatterns = [
    path("placement/preview/", api.PreviewView.as_view()),
    path("placement/repacking/", api.RepackingView.as_view()),
    path("deployments/<uuid:deployment_id>/placement/", api.DeploymentPlacementView.as_view()),
]

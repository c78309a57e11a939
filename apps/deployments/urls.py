from django.urls import path

from apps.deployments import api

urlpatterns = [
    path("deployments/", api.DeploymentsView.as_view()),
    path("deployments/<uuid:deployment_id>/", api.DeploymentView.as_view()),
    path("deployments/<uuid:deployment_id>/replicas/", api.ReplicasView.as_view()),
    path("deployments/<uuid:deployment_id>/revisions/", api.RevisionsView.as_view()),
    path("deployments/<uuid:deployment_id>/rollout/pause/", api.PauseView.as_view()),
    path("deployments/<uuid:deployment_id>/rollout/undo/", api.UndoView.as_view()),
    path("events/", api.EventsView.as_view()),
    path("replicas/", api.AllReplicasView.as_view()),
    path("replicas/<uuid:replica_id>/", api.ReplicaView.as_view()),
    path("replicas/<uuid:replica_id>/drain/", api.DrainReplicaView.as_view()),
    path("replicas/<uuid:replica_id>/events/", api.ReplicaEventsView.as_view()),
    path("replicas/<uuid:replica_id>/restart/", api.RestartView.as_view()),
]

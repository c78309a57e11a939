from django.urls import path

from apps.telemetry import api

urlpatterns = [
    path("live/nodes/", api.LiveNodesView.as_view()),
    path("replicas/<uuid:replica_id>/logs/", api.ReplicaLogsView.as_view()),
    # The label is the request id, its client's own choice, and may have slashes.
    path("requests/<path:label>/decision", api.DecisionView.as_view()),
    path("tenants/<uuid:tenant_id>/prompts/", api.PromptChoiceView.as_view()),
    path("usage/records/<uuid:record_id>/prompt/", api.RecordPromptView.as_view()),
]

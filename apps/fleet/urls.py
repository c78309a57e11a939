from django.urls import path

from apps.fleet import api

urlpatterns = [
    path("nodes/", api.NodesView.as_view()),
    path("nodes/<uuid:node_id>/", api.NodeView.as_view()),
    path("join/", api.JoinView.as_view()),
    path("join-tokens/", api.JoinTokensView.as_view()),
    path("join-tokens/<uuid:token_id>/", api.JoinTokenView.as_view()),
    path("nodes/<uuid:node_id>/agent-token/", api.AgentTokenView.as_view()),
]

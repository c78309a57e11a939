from django.urls import path

from apps.registry import api

urlpatterns = [
    path("model-facts/", api.ModelFactsView.as_view()),
    path("models/", api.ModelsView.as_view()),
    path("models/<uuid:model_id>/", api.ModelView.as_view()),
    path("models/<uuid:model_id>/versions/", api.VersionsView.as_view()),
    path("versions/", api.AllVersionsView.as_view()),
    path("versions/<uuid:version_id>/", api.VersionView.as_view()),
]

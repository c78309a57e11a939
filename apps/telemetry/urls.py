from django.urls import path

from apps.telemetry import api

# The label is the request id, its client's own choice, and may have slashes.
urlpatterns = [path("requests/<path:label>/decision", api.DecisionView.as_view())]

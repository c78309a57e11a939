from django.urls import path

from apps.telemetry import api

# A request id is its client's own choice, and may have slashes.
urlpatterns = [path("requests/<path:request_id>/decision", api.DecisionView.as_view())]

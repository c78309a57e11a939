from django.urls import path

from apps.declarations.api import ApplyView

# The same, with the slash that every other address has; described once.
urlpatterns = [path("apply", ApplyView.as_view()), path("apply/", ApplyView.as_view(schema=None))]

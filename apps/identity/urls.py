from django.urls import path

from apps.identity import api

urlpatterns = [
    path("sessions/", api.SessionsView.as_view()),
    path("sessions/<uuid:session_id>/", api.SessionView.as_view()),
    path("users/<uuid:user_id>/sessions/", api.UserSessionsView.as_view()),
    path("users/<uuid:user_id>/second-factor/", api.UserSecondFactorView.as_view()),
]

from django.urls import path

from apps.limits import api

urlpatterns = [
    path("tenants/<uuid:tenant_id>/limits/", api.TenantLimitsView.as_view()),
    path("tenants/<uuid:tenant_id>/limit-settings/", api.LimitSettingsView.as_view()),
    path("tenants/<uuid:tenant_id>/limit-events/", api.LimitEventsView.as_view()),
    path("tenants/<uuid:tenant_id>/blocks/", api.BlocksView.as_view()),
    path("tenants/<uuid:tenant_id>/raise-requests/", api.RaiseRequestsView.as_view()),
    path("default-limits/", api.DefaultLimitsView.as_view()),
    path("limits/<uuid:limit_id>/", api.LimitView.as_view()),
    path("limits/<uuid:limit_id>/reset/", api.LimitResetView.as_view()),
    path("limits/<uuid:limit_id>/raise/", api.LimitRaiseView.as_view()),
    path("blocks/<uuid:block_id>/", api.BlockView.as_view()),
    path("raise-requests/<uuid:request_id>/decision/", api.RaiseDecisionView.as_view()),
]

from django.urls import path

from apps.quotas import api

urlpatterns = [
    path("tenants/", api.TenantsView.as_view()),
    path("tenants/<uuid:tenant_id>/", api.TenantView.as_view()),
    path("tenants/<uuid:tenant_id>/children/", api.ChildrenView.as_view()),
    path("tenants/<uuid:tenant_id>/policy/", api.PolicyView.as_view()),
    path("service-classes/", api.ServiceClassesView.as_view()),
    path("slo-profiles/", api.SLOProfilesView.as_view()),
]

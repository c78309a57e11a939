from django.contrib.auth.views import LogoutView
from django.urls import path

from apps.console.views import audit, fleet, home, keys, overview, requests, routes, serving, session, tenants, usage
from apps.tenants.access import with_rule
from apps.tenants.matrix import Permission

app_name = "console"

urlpatterns = [
    path("", session.home, name="home"),
    path("sign-in/", with_rule(session.SignIn.as_view(), Permission.OPEN), name="sign_in"),
    path("sign-out/", with_rule(LogoutView.as_view(), Permission.OPEN), name="sign_out"),
    path("palette/", session.palette, name="palette"),
    path("overview/", overview.overview, name="overview"),
    path("fleet/", fleet.fleet, name="fleet"),
    path("fleet/<uuid:node_id>/", fleet.node, name="node"),
    path("fleet/<uuid:node_id>/cordon/", fleet.node_cordon, name="node_cordon"),
    path("models/", serving.models, name="models"),
    path("deployments/", serving.deployments, name="deployments"),
    path("deployments/<uuid:deployment_id>/", serving.deployment, name="deployment"),
    path("deployments/<uuid:deployment_id>/scale/", serving.deployment_scale, name="deployment_scale"),
    path("routes/", routes.routes, name="routes"),
    path("routes/<uuid:route_id>/", routes.route, name="route"),
    path("tenants/", tenants.tenant_list, name="tenants"),
    path("tenants/new/", tenants.tenant_create, name="tenant_create"),
    path("tenants/<uuid:tenant_id>/", tenants.tenant, name="tenant"),
    path("tenants/<uuid:tenant_id>/policy/", tenants.tenant_policy, name="tenant_policy"),
    path("tenants/<uuid:tenant_id>/members/", tenants.member_add, name="member_add"),
    path("tenants/<uuid:tenant_id>/members/<uuid:membership_id>/remove/", tenants.member_remove, name="member_remove"),
    path("tenants/<uuid:tenant_id>/keys/", keys.keys, name="keys"),
    path("keys/<uuid:key_id>/revoke/", keys.key_revoke, name="key_revoke"),
    path("tenants/<uuid:tenant_id>/home/", home.tenant_home, name="tenant_home"),
    path("tenants/<uuid:tenant_id>/playground/", home.playground, name="playground"),
    path("tenants/<uuid:tenant_id>/playground/key/", home.playground_key, name="playground_key"),
    path("tenants/<uuid:tenant_id>/playground/record/", home.playground_record, name="playground_record"),
    path("usage/", usage.usage, name="usage"),
    path("requests/", requests.requests, name="requests"),
    path("requests/newer/", requests.requests_newer, name="requests_newer"),
    path("requests/<uuid:record_id>/", requests.record, name="record"),
    path("audit/", audit.audit, name="audit"),
]

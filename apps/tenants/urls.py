from django.urls import path

from apps.tenants.api import audit, keys, members, people

urlpatterns = [
    path("audit/", audit.AuditView.as_view()),
    path("me/", keys.MeView.as_view()),
    path("tenants/<uuid:tenant_id>/members/", members.MembersView.as_view()),
    path("tenants/<uuid:tenant_id>/members/<uuid:membership_id>/", members.MemberView.as_view()),
    path("tenants/<uuid:tenant_id>/invitations/", members.InvitationsView.as_view()),
    path("tenants/<uuid:tenant_id>/invitations/<uuid:invitation_id>/", members.InvitationView.as_view()),
    path("tenants/<uuid:tenant_id>/service-accounts/", members.ServiceAccountsView.as_view()),
    path("tenants/<uuid:tenant_id>/service-accounts/<uuid:membership_id>/", members.ServiceAccountView.as_view()),
    path(
        "tenants/<uuid:tenant_id>/service-accounts/<uuid:membership_id>/tokens/",
        members.ServiceAccountTokensView.as_view(),
    ),
    path(
        "tenants/<uuid:tenant_id>/service-accounts/<uuid:membership_id>/tokens/<uuid:token_id>/",
        members.ServiceAccountTokenView.as_view(),
    ),
    path("users/", people.UsersView.as_view()),
    path("users/<uuid:user_id>/", people.UserView.as_view()),
    path("api-keys/", keys.APIKeysView.as_view()),
    path("api-keys/<uuid:key_id>/", keys.APIKeyView.as_view()),
    path("api-keys/<uuid:key_id>/rotation/", keys.RotationView.as_view()),
    path("playground-keys/", keys.PlaygroundKeysView.as_view()),
    path("service-tokens/", keys.ServiceTokensView.as_view()),
    path("service-tokens/<uuid:token_id>/", keys.ServiceTokenView.as_view()),
]

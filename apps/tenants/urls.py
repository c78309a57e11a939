from django.urls import path

from apps.tenants import api

urlpatterns = [
    path("me/", api.MeView.as_view()),
    path("tenants/<uuid:tenant_id>/members/", api.MembersView.as_view()),
    path("tenants/<uuid:tenant_id>/members/<uuid:membership_id>/", api.MemberView.as_view()),
    path("tenants/<uuid:tenant_id>/invitations/", api.InvitationsView.as_view()),
    path("tenants/<uuid:tenant_id>/invitations/<uuid:invitation_id>/", api.InvitationView.as_view()),
    path("tenants/<uuid:tenant_id>/service-accounts/", api.ServiceAccountsView.as_view()),
    path("tenants/<uuid:tenant_id>/service-accounts/<uuid:membership_id>/", api.ServiceAccountView.as_view()),
    path(
        "tenants/<uuid:tenant_id>/service-accounts/<uuid:membership_id>/tokens/",
        api.ServiceAccountTokensView.as_view(),
    ),
    path("users/", api.UsersView.as_view()),
    path("users/<uuid:user_id>/", api.UserView.as_view()),
    path("api-keys/", api.APIKeysView.as_view()),
    path("api-keys/<uuid:key_id>/", api.APIKeyView.as_view()),
    path("api-keys/<uuid:key_id>/rotation/", api.RotationView.as_view()),
    path("playground-keys/", api.PlaygroundKeysView.as_view()),
    path("service-tokens/", api.ServiceTokensView.as_view()),
    path("service-tokens/<uuid:token_id>/", api.ServiceTokenView.as_view()),
]

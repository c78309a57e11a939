"""Writes of people, tenants, members, keys and tokens. Each leaves an audit entry in its own transaction."""

from apps.tenants.services.invitations import accept_invitation, invite, join_by_invitation, revoke_invitation
from apps.tenants.services.keys import (
    create_key,
    forget_expired_playground_keys,
    mint_playground_key,
    revoke_key,
    rotate_key,
)
from apps.tenants.services.members import add_member, change_role, invite_member, remove_member
from apps.tenants.services.people import PUBLISH, change_access, change_password, create_user, set_platform_roles
from apps.tenants.services.service_accounts import create_service_account, remove_service_account
from apps.tenants.services.tenants import count_what_goes, create_tenant, reasons_against_removal, remove_tenant
from apps.tenants.services.tokens import create_service_token, revoke_service_token

__all__ = [
    "PUBLISH",
    "accept_invitation",
    "add_member",
    "change_access",
    "change_password",
    "change_role",
    "count_what_goes",
    "create_key",
    "create_service_account",
    "create_service_token",
    "create_tenant",
    "create_user",
    "forget_expired_playground_keys",
    "invite",
    "invite_member",
    "join_by_invitation",
    "mint_playground_key",
    "reasons_against_removal",
    "remove_member",
    "remove_service_account",
    "remove_tenant",
    "revoke_invitation",
    "revoke_key",
    "revoke_service_token",
    "rotate_key",
    "set_platform_roles",
]

from uuid import UUID

import pytest

from apps.common.actors import Actor
from apps.tenants import policies

pytestmark = pytest.mark.unit

GOLD, BATCH, USER = UUID(int=1), UUID(int=2), UUID(int=3)


def actor(role=None, tenant=GOLD, **flags):
    return Actor(user_id=USER, name="someone", roles={tenant: role} if role else {}, **flags)


OPERATOR = actor(is_operator=True)
FINANCE = actor(is_finance=True)
ADMIN, DEVELOPER, VIEWER = actor("tenant_admin"), actor("developer"), actor("viewer")
STRANGER = actor("tenant_admin", tenant=BATCH)
NOBODY = actor()
ALL = [OPERATOR, FINANCE, ADMIN, DEVELOPER, VIEWER, STRANGER, NOBODY]


def allowed(rule):
    return [one for one in ALL if rule(one)]


def test_a_tenant_is_seen_by_its_members_and_the_platform():
    assert allowed(lambda a: policies.may_see_tenant(a, GOLD)) == [OPERATOR, FINANCE, ADMIN, DEVELOPER, VIEWER]


def test_keys_are_seen_by_members_and_operators_but_not_by_finance():
    assert allowed(lambda a: policies.may_see_keys(a, GOLD)) == [OPERATOR, ADMIN, DEVELOPER, VIEWER]


def test_members_are_managed_by_their_admins_and_operators():
    assert allowed(lambda a: policies.may_manage_members(a, GOLD)) == [OPERATOR, ADMIN]


def test_keys_are_made_by_all_members_but_viewers():
    assert allowed(lambda a: policies.may_create_key(a, GOLD)) == [OPERATOR, ADMIN, DEVELOPER]


def test_a_developer_revokes_only_keys_of_their_own():
    assert policies.may_revoke_key(DEVELOPER, GOLD, USER)
    assert not policies.may_revoke_key(DEVELOPER, GOLD, UUID(int=9))
    assert not policies.may_revoke_key(DEVELOPER, GOLD, None)
    assert not policies.may_revoke_key(DEVELOPER, BATCH, USER)
    assert allowed(lambda a: policies.may_revoke_key(a, GOLD, UUID(int=9))) == [OPERATOR, ADMIN]


def test_prices_are_set_by_operators_and_finance():
    assert allowed(policies.may_set_prices) == [OPERATOR, FINANCE]


def test_only_operators_operate():
    assert allowed(policies.may_operate) == [OPERATOR]

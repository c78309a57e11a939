from uuid import UUID

import pytest

from apps.common.actors import Actor
from apps.common.errors import InvalidInputError
from apps.tenants.matrix import Permission, may, may_somewhere, scopes_for
from apps.tenants.policies import Branch, inherited_roles, normal_networks, normal_paths

pytestmark = pytest.mark.unit

ORGANISATION, TEAM, SISTER, PROJECT = (UUID(int=number) for number in range(1, 5))
BELOW = [Branch(TEAM, ORGANISATION), Branch(SISTER, ORGANISATION), Branch(PROJECT, TEAM)]


def actor(**facts):
    return Actor(user_id=UUID(int=9), name="someone", **facts)


def test_a_role_holds_for_all_that_is_below():
    assert inherited_roles({ORGANISATION: "viewer"}, BELOW) == dict.fromkeys(
        (ORGANISATION, TEAM, SISTER, PROJECT), "viewer"
    )


def test_a_role_reaches_neither_upwards_nor_sideways():
    assert inherited_roles({TEAM: "tenant_admin"}, [Branch(PROJECT, TEAM)]) == {
        TEAM: "tenant_admin",
        PROJECT: "tenant_admin",
    }


def test_the_stronger_of_two_roles_holds():
    roles = inherited_roles({ORGANISATION: "developer", TEAM: "viewer", PROJECT: "tenant_admin"}, BELOW)
    assert (roles[TEAM], roles[PROJECT]) == ("developer", "tenant_admin")


def test_a_token_may_what_both_its_scopes_and_its_owner_may():
    token = actor(roles={TEAM: "developer"}, scopes=frozenset({"keys:read", "members:write"}))
    assert may(token, Permission.SEE_KEYS, TEAM)
    assert not may(token, Permission.CREATE_KEYS, TEAM)
    assert not may(token, Permission.MANAGE_MEMBERS, TEAM)
    assert may_somewhere(token, Permission.SIGNED_IN)


def test_a_token_of_an_operator_without_the_scope_does_not_operate():
    assert not may_somewhere(actor(is_operator=True, scopes=frozenset({"tenant:read"})), Permission.OPERATE)


def test_scopes_to_give_are_the_permissions_one_has():
    assert "keys:write" in scopes_for(actor(roles={TEAM: "developer"}))
    assert "members:write" not in scopes_for(actor(roles={TEAM: "developer"}))


def test_networks_are_written_one_way():
    assert normal_networks([" 10.1.2.3/8", "2001:DB8::/32", "192.0.2.7", "10.0.0.0/8"]) == [
        "10.0.0.0/8",
        "192.0.2.7/32",
        "2001:db8::/32",
    ]


@pytest.mark.parametrize("text", ["", "10.0.0.0/33", "fe80::1%eth0", "host", "10.0.0.0-10.0.0.9"])
def test_what_is_no_network_is_refused_beside_its_field(text):
    with pytest.raises(InvalidInputError) as refused:
        normal_networks([text])
    assert "networks" in refused.value.fields


def test_networks_of_a_key_are_bounded():
    with pytest.raises(InvalidInputError):
        normal_networks(f"10.0.{number}.0/24" for number in range(65))


def test_a_path_that_no_gateway_has_is_refused():
    assert normal_paths(["/b", "/a", "/a"], known=["/a", "/b"]) == ["/a", "/b"]
    with pytest.raises(InvalidInputError):
        normal_paths(["/c"], known=["/a", "/b"])

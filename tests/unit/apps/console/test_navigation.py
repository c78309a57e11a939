from collections import Counter
from uuid import UUID

import pytest

from apps.common.actors import Actor
from apps.console.navigation import groups_for

TENANT = UUID(int=1)
PEOPLE = {
    "platform admin": {"is_platform_admin": True, "is_operator": True, "is_finance": True},
    "operator": {"is_operator": True},
    "finance": {"is_finance": True},
    "tenant admin": {"roles": {TENANT: "tenant_admin"}},
    "tenant admin who is finance": {"roles": {TENANT: "tenant_admin"}, "is_finance": True},
}


@pytest.mark.parametrize("person", PEOPLE)
def test_each_key_of_a_rail_opens_one_page(person):
    actor = Actor(user_id=UUID(int=2), name=person, **PEOPLE[person])
    tenants = [(TENANT, "acme")] if actor.roles else []
    rail = groups_for(actor, tenants=tenants, path="/overview/")
    keys = Counter(item.key for group in rail for item in group.items)
    assert keys
    assert [key for key, count in keys.items() if count > 1] == []

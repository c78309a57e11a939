"""Every address of the console against every kind of person. An address that is not in the table fails the test."""

import pytest
from django.urls import reverse

from apps.console.urls import urlpatterns

pytestmark = pytest.mark.integration

ACTORS = ("owner", "teammate", "viewer", "stranger", "operator", "finance")
EVERYBODY = (200, 200, 200, 200, 200, 200)
OPERATORS = (403, 403, 403, 403, 200, 403)
OPERATORS_POST = (403, 403, 403, 403, 302, 403)
THEIR_OWN = (200, 200, 200, 404, 200, 200)

GET = {
    "home": (302,) * 6,
    "palette": EVERYBODY,
    "overview": OPERATORS,
    "fleet": OPERATORS,
    "node": OPERATORS,
    "models": OPERATORS,
    "deployments": OPERATORS,
    "deployment": OPERATORS,
    "routes": OPERATORS,
    "route": OPERATORS,
    "tenants": OPERATORS,
    "tenant_create": OPERATORS,
    "tenant": THEIR_OWN,
    "tenant_policy": OPERATORS,
    "keys": (200, 200, 200, 404, 200, 403),
    "tenant_home": (200, 200, 200, 404, 200, 403),
    "playground": (200, 200, 403, 404, 200, 403),
    "playground_record": (204, 204, 204, 404, 204, 204),
    "usage": EVERYBODY,
    "requests": EVERYBODY,
    "requests_newer": EVERYBODY,
    "record": THEIR_OWN,
    "audit": OPERATORS,
}
POST = {
    "node_cordon": ({"is_cordoned": "1"}, OPERATORS_POST),
    "deployment_scale": ({"replica_count": "2"}, OPERATORS_POST),
    "member_add": (
        {"username": "newcomer", "role": "viewer", "password": "correct horse battery"},
        (302, 403, 403, 404, 302, 403),
    ),
    "member_remove": ({}, (302, 403, 403, 404, 302, 403)),
    "key_revoke": ({}, (302, 403, 403, 404, 302, 404)),
    "playground_key": ({}, (200, 200, 403, 404, 200, 403)),
}
OF_THE_SESSION = {"sign_in", "sign_out"}
QUERY = {"playground_record": {"key_id": "00000000-0000-7000-8000-000000000000", "request_id": "none"}}


def by_actor(table):
    return [
        pytest.param(name, actor, status, id=f"{name}-{actor}")
        for name, statuses in table.items()
        for actor, status in zip(ACTORS, statuses, strict=True)
    ]


def address(name, yard):
    pattern = next(pattern for pattern in urlpatterns if pattern.name == name)
    parts = yard.address_parts
    return reverse(f"console:{name}", kwargs={part: parts[part] for part in pattern.pattern.converters})


def test_the_table_knows_every_address():
    assert {pattern.name for pattern in urlpatterns} == set(GET) | set(POST) | OF_THE_SESSION


@pytest.mark.parametrize(("name", "actor", "status"), by_actor(GET))
def test_a_page_opens_for_whom_it_is(name, actor, status, yard, open_as):
    assert open_as(actor).get(address(name, yard), QUERY.get(name)).status_code == status


@pytest.mark.parametrize(
    ("name", "actor", "status"), by_actor({name: statuses for name, (_, statuses) in POST.items()})
)
def test_an_action_is_taken_for_whom_it_is(name, actor, status, yard, open_as):
    assert open_as(actor).post(address(name, yard), POST[name][0]).status_code == status


@pytest.mark.parametrize("name", [*GET, *POST])
def test_nobody_sees_anything_before_signing_in(name, yard, open_as):
    response = open_as("nobody").get(address(name, yard))
    assert response.status_code == 302
    assert response["Location"].startswith("/sign-in/?next=")


@pytest.mark.parametrize("name", POST)
def test_an_action_is_never_taken_by_a_link(name, yard, open_as):
    assert open_as("operator").get(address(name, yard)).status_code == 405

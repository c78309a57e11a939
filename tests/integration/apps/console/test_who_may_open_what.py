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
    "key_revoke": ({}, (302, 403, 403, 404, 302, 403)),
    "playground_key": ({}, (200, 200, 403, 404, 200, 403)),
}
OF_THE_SESSION = {"sign_in", "sign_out"}
QUERY = {"playground_record": {"key_id": "00000000-0000-7000-8000-000000000000", "request_id": "none"}}


def address(name, yard):
    pattern = next(pattern for pattern in urlpatterns if pattern.name == name)
    parts = yard.address_parts
    return reverse(f"console:{name}", kwargs={part: parts[part] for part in pattern.pattern.converters})


def test_the_table_knows_every_address():
    assert {pattern.name for pattern in urlpatterns} == set(GET) | set(POST) | OF_THE_SESSION


@pytest.mark.parametrize("name", GET)
def test_a_page_opens_for_whom_it_is(name, yard, open_as):
    path = address(name, yard)
    answers = {actor: open_as(actor).get(path, QUERY.get(name)).status_code for actor in ACTORS}
    assert answers == dict(zip(ACTORS, GET[name], strict=True))


@pytest.mark.parametrize("number", range(len(ACTORS)), ids=ACTORS)
@pytest.mark.parametrize("name", POST)
def test_an_action_is_taken_for_whom_it_is(name, number, yard, open_as):
    form, statuses = POST[name]
    assert open_as(ACTORS[number]).post(address(name, yard), form).status_code == statuses[number]


def test_nobody_sees_anything_before_signing_in(yard, open_as):
    answers = {name: open_as("nobody").get(address(name, yard)) for name in [*GET, *POST]}
    assert {name for name, answer in answers.items() if answer.status_code != 302} == set()
    assert {answer["Location"].split("?")[0] for answer in answers.values()} == {"/sign-in/"}


def test_an_action_is_never_taken_by_a_link(yard, open_as):
    operator = open_as("operator")
    assert {name: operator.get(address(name, yard)).status_code for name in POST} == dict.fromkeys(POST, 405)

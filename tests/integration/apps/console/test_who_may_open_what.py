"""What each kind of person gets at the pages there are. That no address lacks a rule: test_every_address.py."""

import re

import pytest
from django.urls import reverse

from apps.console.urls import urlpatterns

pytestmark = pytest.mark.integration

ACTORS = ("owner", "teammate", "viewer", "stranger", "operator", "finance")
EVERYBODY = (200, 200, 200, 200, 200, 200)
OPERATORS = (403, 403, 403, 403, 200, 403)
OPERATORS_POST = (403, 403, 403, 403, 302, 403)
MANAGERS_POST = (302, 403, 403, 404, 302, 403)
OPERATORS_ON_THEIRS = (403, 403, 403, 404, 302, 403)
LIMIT = {"scope": "tenant", "kind": "requests_per_minute", "amount": "60"}
FINANCE = (403, 403, 403, 403, 200, 200)
THEIR_OWN = (200, 200, 200, 404, 200, 200)

GET = {
    "home": (302,) * 6,
    "palette": EVERYBODY,
    "overview": OPERATORS,
    "alerts": OPERATORS,
    "rollouts": OPERATORS,
    "replica": OPERATORS,
    "accelerator": OPERATORS,
    "fleet": OPERATORS,
    "node": OPERATORS,
    "models": OPERATORS,
    "model_new": OPERATORS,
    "version_new": OPERATORS,
    "version": OPERATORS,
    "deployments": OPERATORS,
    "deployment": OPERATORS,
    "routes": OPERATORS,
    "route_new": OPERATORS,
    "route": OPERATORS,
    "tenants": OPERATORS,
    "tenant_create": OPERATORS,
    "tenant": THEIR_OWN,
    "tenant_policy": OPERATORS,
    "tenant_remove": (403, 403, 403, 404, 200, 403),
    "prompts": THEIR_OWN,
    "keys": (200, 200, 200, 404, 200, 403),
    "tenant_home": (200, 200, 200, 404, 200, 403),
    "tenant_models": (200, 200, 200, 404, 200, 403),
    "batches": (200, 200, 403, 404, 200, 403),
    "playground": (200, 200, 403, 404, 200, 403),
    "playground_record": (204, 204, 204, 404, 204, 204),
    "usage": EVERYBODY,
    "scheduler": OPERATORS,
    "requests": EVERYBODY,
    "requests_newer": EVERYBODY,
    "record": THEIR_OWN,
    "cost": FINANCE,
    "outcomes": EVERYBODY,
    "statements": EVERYBODY,
    "exports": EVERYBODY,
    "record_health": FINANCE,
    "budgets": EVERYBODY,
    "budget_new": (200, 403, 403, 200, 200, 200),
    "budget": THEIR_OWN,
    "price_book": FINANCE,
    "price_new": FINANCE,
    "discount_new": FINANCE,
    "accelerator_price_new": FINANCE,
    "reratings": FINANCE,
    "rerating": FINANCE,
    "audit": (200, 403, 403, 200, 200, 403),
    "account": EVERYBODY,
    "members": (200, 200, 200, 404, 200, 403),
    "limits": OPERATORS,
    "tenant_limits": THEIR_OWN,
}
POST = {
    "budget_delete": ({}, (302, 403, 403, 404, 302, 302)),
    "rerating_apply": ({}, (403, 403, 403, 403, 302, 302)),
    "rerating_cancel": ({}, (403, 403, 403, 403, 302, 302)),
    "quarantined_release": ({}, (403, 403, 403, 403, 400, 400)),
    "nodes_act": ({"act": "cordon", "chosen": "$node", "confirmed": "1"}, OPERATORS_POST),
    "keys_revoke": ({"chosen": "$key", "confirmed": "1"}, (302, 200, 403, 404, 302, 403)),
    "node_cordon": ({"is_cordoned": "1"}, OPERATORS_POST),
    "deployment_scale": ({"replica_count": "2"}, OPERATORS_POST),
    "member_add": (
        {"username": "newcomer", "role": "viewer", "password": "correct horse battery"},
        (302, 403, 403, 404, 302, 403),
    ),
    "member_remove": ({}, (302, 403, 403, 404, 302, 403)),
    "key_revoke": ({}, (302, 403, 403, 404, 302, 403)),
    "default_limit_set": (LIMIT, OPERATORS_POST),
    "limit_set": (LIMIT | {"scope": "end_user", "subject": "*"}, MANAGERS_POST),
    "limit_settings_set": ({"time_zone": "Europe/Berlin", "degraded": "share"}, OPERATORS_POST),
    "block_set": ({"scope": "end_user", "subject": "mallory"}, MANAGERS_POST),
    "raise_ask": ({"limit_id": "$limit", "amount": "90", "reason": "we grow"}, MANAGERS_POST),
    "limit_change": ({"amount": "50"}, OPERATORS_ON_THEIRS),
    "limit_reset": ({}, OPERATORS_ON_THEIRS),
    "limit_raise": ({"amount": "500", "hours": "2"}, OPERATORS_POST),
    "limit_remove": ({}, OPERATORS_ON_THEIRS),
    "block_lift": ({}, OPERATORS_ON_THEIRS),
    "raise_decide": ({"decision": "approve"}, OPERATORS_POST),
    "prompts_keep": ({"days": "7"}, (302, 403, 403, 404, 403, 403)),
    "prompts_forget": ({}, (302, 403, 403, 404, 403, 403)),
    "playground_key": ({}, (200, 200, 403, 404, 200, 403)),
}
QUERY = {"playground_record": {"key_id": "00000000-0000-7000-8000-000000000000", "request_id": "none"}}

LINK = re.compile(r'<a\b[^>]*?href="(/(?!api/)[^"?#]*)"')  # of the console, without what narrows it


def address(name, yard):
    pattern = next(pattern for pattern in urlpatterns if pattern.name == name)
    parts = yard.address_parts
    return reverse(f"console:{name}", kwargs={part: parts[part] for part in pattern.pattern.converters})


@pytest.mark.parametrize("name", GET)
def test_a_page_opens_for_whom_it_is(name, yard, open_as):
    path = address(name, yard)
    answers = {actor: open_as(actor).get(path, QUERY.get(name)).status_code for actor in ACTORS}
    assert answers == dict(zip(ACTORS, GET[name], strict=True))


@pytest.mark.parametrize("number", range(len(ACTORS)), ids=ACTORS)
@pytest.mark.parametrize("name", POST)
def test_an_action_is_taken_for_whom_it_is(name, number, yard, open_as):
    form, statuses = POST[name]
    named = {"$limit": yard.limit.pk, "$node": yard.node.pk, "$key": yard.key.pk}
    form = {field: named.get(value, value) for field, value in form.items()}
    assert open_as(ACTORS[number]).post(address(name, yard), form).status_code == statuses[number]


@pytest.mark.parametrize("actor", ACTORS)
def test_a_page_shows_no_link_that_is_not_for_its_reader(actor, yard, open_as):
    client = open_as(actor)
    pages = [client.get(address(name, yard), QUERY.get(name)) for name in GET]
    shown = [page.content.decode() for page in pages if page.status_code == 200 and not page.streaming]
    places = {place for page in shown for place in LINK.findall(page)}
    assert {place for place in places if client.get(place).status_code >= 400} == set()
    assert len(places) > 5


def test_nobody_sees_anything_before_signing_in(yard, open_as):
    answers = {name: open_as("nobody").get(address(name, yard)) for name in [*GET, *POST]}
    assert {name for name, answer in answers.items() if answer.status_code != 302} == set()
    assert {answer["Location"].split("?")[0] for answer in answers.values()} == {"/sign-in/"}


def test_an_action_is_never_taken_by_a_link(yard, open_as):
    operator = open_as("operator")
    refused = {name: operator.get(address(name, yard)).status_code for name in POST}
    assert {name for name, status in refused.items() if status not in {403, 405}} == set()


@pytest.mark.parametrize(("who", "is_named"), [("owner", True), ("teammate", True), ("stranger", False)])
def test_a_filter_names_nobody_of_another_tenant(yard, open_as, who, is_named):
    """Whoever knows an id does not learn from the page what it is called."""
    person, key = yard.people.viewer, yard.key
    shown = open_as(who).get(f"/usage/?user={person.pk}&key={key.pk}").content.decode()
    assert (f"user {person.username}" in shown) == is_named
    assert (f"key {key}" in shown) == is_named

"""What every address of the REST API does alike, tried on a few of them."""

import threading

import pytest
from django.db import connection
from rest_framework.test import APIClient

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.fleet.models import Node
from apps.registry.models import Model
from apps.rest.models import KeptAnswer
from apps.rest.services.forgetting import forget_old_answers
from apps.tenants.models import APIKey
from tests.factories.domain import NOW, make_deployment, make_node, make_people, make_version

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

MODELS = "/api/v1/models/"
NEW = {"name": "llama", "task": "generate"}


@pytest.fixture
def people():
    return make_people()


@pytest.fixture
def operator(people):
    return signed_in(people.operator)


def signed_in(user):
    client = APIClient()
    client.force_login(user)
    return client


def test_a_thing_has_an_etag_and_is_not_sent_again_to_who_knows_it(operator):
    path = f"/api/v1/nodes/{make_node().pk}/"
    first = operator.get(path)
    again = operator.get(path, headers={"If-None-Match": first["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])
    Node.objects.update(is_lost=True)
    assert operator.get(path, headers={"If-None-Match": first["ETag"]}).status_code == 200


def test_a_file_that_has_no_tag_is_sent_whatever_one_claims_to_have(operator):
    for claimed in ("*", 'W/""'):
        assert operator.get("/api/v1/usage/records.csv", headers={"If-None-Match": claimed}).status_code == 200


def test_a_change_is_refused_when_somebody_else_has_changed_the_thing_since(operator):
    path = f"/api/v1/nodes/{make_node().pk}/"
    seen = operator.get(path)["ETag"]
    changed = operator.patch(path, {"is_cordoned": True}, headers={"If-Match": seen})
    assert (changed.status_code, changed["ETag"] == seen) == (200, False)
    late = operator.patch(path, {"labels": {"zone": "a"}}, headers={"If-Match": seen})
    assert (late.status_code, late.json()["code"]) == (412, "changed_meanwhile")
    assert Node.objects.get().labels == {}
    assert operator.patch(path, {"labels": {"zone": "a"}}, headers={"If-Match": changed["ETag"]}).status_code == 200
    assert operator.delete(path, headers={"If-Match": '"of something else"'}).status_code == 412
    assert operator.delete(path, headers={"If-Match": "*"}).status_code == 204


def test_that_a_node_was_heard_of_since_is_no_reason_to_refuse_a_change(operator):
    path = f"/api/v1/nodes/{make_node().pk}/"
    seen = operator.get(path)["ETag"]
    Node.objects.update(last_seen_at=NOW.replace(hour=13), state="offline")
    assert operator.get(path)["ETag"] != seen
    assert operator.patch(path, {"is_cordoned": True}, headers={"If-Match": seen}).status_code == 200


def test_what_is_done_to_a_thing_at_an_address_of_its_own_looks_at_the_thing(operator):
    path = f"/api/v1/deployments/{make_deployment(make_version()).pk}/"
    seen = operator.get(path)["ETag"]
    tried = operator.post(f"{path}rollout/pause/?dry_run=1")
    assert [each["field"] for each in tried.json()["diff"]] == ["is_rollout_paused"]
    assert operator.post(f"{path}rollout/pause/", headers={"If-Match": seen}).status_code == 200
    assert operator.delete(f"{path}rollout/pause/", headers={"If-Match": seen}).status_code == 412
    node = make_node()
    seen = operator.get(f"/api/v1/nodes/{node.pk}/")["ETag"]
    assert operator.post(f"/api/v1/nodes/{node.pk}/agent-token/", headers={"If-Match": seen}).status_code == 201


@pytest.mark.parametrize(
    ("query", "status"), [("cursor=garbage", 404), ("cursor=cD0yMDIw", 404), ("watch=maybe", 400), ("page_size=0", 400)]
)
def test_what_is_no_page_and_no_watch_is_refused_by_its_name(operator, query, status):
    refused = operator.get(f"/api/v1/nodes/?{query}")
    assert (refused.status_code, list(refused.json()["fields"])) == (status, [query.partition("=")[0]])


def test_an_installation_can_ask_that_every_change_names_what_it_changes(operator, settings):
    settings.API_REQUIRES_IF_MATCH = True
    path = f"/api/v1/nodes/{make_node().pk}/"
    bare = operator.patch(path, {"is_cordoned": True})
    assert (bare.status_code, bare.json()["code"]) == (428, "if_match_required")
    assert operator.patch(path, {"is_cordoned": True}, headers={"If-Match": "*"}).status_code == 200


def test_a_request_sent_twice_with_its_key_is_done_once_and_answered_alike(operator):
    key = {"Idempotency-Key": "order-1"}
    first, second = (operator.post(MODELS, NEW, headers=key) for _ in range(2))
    assert (first.status_code, second.status_code) == (201, 201)
    assert (second.json(), second["Idempotency-Replayed"]) == (first.json(), "true")
    assert Model.objects.count() == 1
    assert AuditEntry.objects.filter(action="model.created").count() == 1


def test_a_key_is_good_for_one_request_of_one_asker(operator, people):
    key = {"Idempotency-Key": "order-1"}
    operator.post(MODELS, NEW, headers=key)
    other = operator.post(MODELS, NEW | {"name": "qwen"}, headers=key)
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    assert signed_in(people.platform_admin).post(MODELS, NEW | {"name": "qwen"}, headers=key).status_code == 201


def test_a_refused_request_may_be_sent_again_with_its_key(operator):
    key = {"Idempotency-Key": "order-1"}
    assert operator.post(MODELS, {"name": "llama"}, headers=key).status_code == 400
    assert operator.post(MODELS, NEW, headers=key).status_code == 201


def test_a_key_that_is_none_is_refused(operator):
    refused = operator.post(MODELS, NEW, headers={"Idempotency-Key": "x" * 256})
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["Idempotency-Key"])


def test_answers_are_kept_for_a_day_and_sealed(operator, people):
    body = {"name": "ci", "tenant_id": str(people.tenant.pk)}
    secret = operator.post("/api/v1/api-keys/", body, headers={"Idempotency-Key": "k1"}).json()["key"]
    kept = KeptAnswer.objects.get()
    assert secret.encode() not in bytes(kept.sealed)
    assert operator.post("/api/v1/api-keys/", body, headers={"Idempotency-Key": "k1"}).json()["key"] == secret
    forget_old_answers(now=kept.expires_at)
    assert operator.post("/api/v1/api-keys/", body, headers={"Idempotency-Key": "k1"}).json()["key"] != secret
    assert APIKey.objects.count() == 2


def test_a_dry_run_says_what_would_change_and_changes_nothing(operator, django_capture_on_commit_callbacks):
    path = f"/api/v1/nodes/{make_node().pk}/"
    entries = AuditEntry.objects.count()
    with django_capture_on_commit_callbacks() as woken:
        tried = operator.patch(f"{path}?dry_run=1", {"labels": {"zone": "a"}})
    assert (tried.status_code, tried.json()["would_answer"]) == (200, 200)
    assert {"field": "labels.zone", "from": None, "to": "a"} in tried.json()["diff"]
    assert [each["action"] for each in tried.json()["changes"]] == ["node.labelled"]
    assert (Node.objects.get().labels, AuditEntry.objects.count(), woken) == ({}, entries, [])


def test_a_dry_run_checks_everything_and_shows_no_secret(operator, people):
    assert operator.post(f"{MODELS}?dry_run=1", {"name": "no such task"}).status_code == 400
    tried = operator.post(f"{MODELS}?dry_run=true", NEW)
    assert (tried.json()["would_answer"], tried.json()["after"]["name"]) == (201, "llama")
    body = {"name": "ci", "tenant_id": str(people.tenant.pk)}
    assert "key" not in operator.post("/api/v1/api-keys/?dry_run=1", body).json()["after"]
    assert operator.post(f"{MODELS}?dry_run=perhaps", NEW).status_code == 400
    assert (Model.objects.count(), APIKey.objects.count()) == (0, 0)


def test_lists_are_filtered_by_what_they_show(operator):
    make_node("n1", labels={"zone": "a", "tier": "x"})
    make_node("n2", labels={"zone": "b"}, state="offline")
    make_node("n3", is_cordoned=True)

    def names(query):
        return {row["name"] for row in operator.get(f"/api/v1/nodes/?{query}").json()["results"]}

    assert names("state=offline,joining") == {"n2"}
    assert names("labels=zone=a,tier=x") == {"n1"}
    assert names("is_cordoned=true&name=n3,n2") == {"n3"}
    assert names("created_at_since=2026-11-29T12:00:00Z") == {"n1", "n2", "n3"}
    assert names("created_at_until=2026-11-29T12:00:00Z") == set()


@pytest.mark.parametrize(
    "query",
    [
        "stat=online",
        "state=asleep",
        "id=17",
        "is_lost=perhaps",
        "created_at_since=yesterday",
        "labels=zone",
        "name=%00",
    ],
)
def test_a_filter_that_is_none_is_refused_and_named(operator, query):
    refused = operator.get(f"/api/v1/nodes/?{query}")
    assert refused.status_code == 400
    assert refused["Content-Type"] == "application/problem+json"


def test_filters_reach_what_a_list_shows_of_its_parents(operator):
    make_deployment(make_version("v1"))
    assert len(operator.get("/api/v1/deployments/?name=demo-chat-v1").json()["results"]) == 1


def test_pages_hold_every_row_once(operator):
    for number in range(5):
        make_node(f"n{number}")
    path, seen = "/api/v1/nodes/?page_size=2", []
    while path:
        page = operator.get(path).json()
        seen += [row["name"] for row in page["results"]]
        path = page["next"]
    assert seen == ["n4", "n3", "n2", "n1", "n0"]


@pytest.mark.parametrize(
    ("method", "path", "body", "kind", "status"),
    [
        ("get", "/api/v1/no-such-thing/", "", "application/json", 404),
        ("get", "/api/v1/nodes", "", "application/json", 404),
        ("get", "/api/v1/nodes/00000000-0000-7000-8000-000000000000/", "", "application/json", 404),
        ("delete", "/api/v1/nodes/", "", "application/json", 405),
        ("post", MODELS, "{", "application/json", 400),
        ("post", MODELS, "[1]", "application/json", 400),
        ("post", MODELS, "name=llama", "application/x-www-form-urlencoded", 415),
        ("get", "/api/v1/nodes/?cursor=nonsense", "", "application/json", 404),
    ],
)
def test_every_error_is_a_problem(operator, method, path, body, kind, status):  # noqa: PLR0917 - a table
    answer = operator.generic(method.upper(), path, body, content_type=kind)
    assert answer.status_code == status
    assert answer["Content-Type"] == "application/problem+json"
    assert {"type", "title", "status", "code", "detail", "fields"} <= set(answer.json())


def test_a_host_that_is_not_ours_is_refused_with_a_problem(operator):
    answer = operator.get(MODELS, headers={"Host": "evil.example"})
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")


def test_who_asks_too_often_is_told_when_to_come_back(operator, people, settings):
    settings.API_REQUESTS_PER_MINUTE = 60
    answers = [operator.get("/api/v1/me/") for _ in range(20)]
    refused = next(each for each in answers if each.status_code == 429)
    assert (refused.json()["code"], int(refused["Retry-After"]) >= 1) == ("throttled", True)
    assert answers[0]["RateLimit-Limit"] == "60"
    assert int(answers[0]["RateLimit-Remaining"]) > int(answers[3]["RateLimit-Remaining"])
    assert signed_in(people.finance).get("/api/v1/me/").status_code == 200


def test_without_valkey_nobody_is_refused(operator, settings, monkeypatch):
    monkeypatch.setattr("apps.rest.conventions.rates.blocking_client", unreachable)
    settings.API_REQUESTS_PER_MINUTE = 1
    assert {operator.get("/api/v1/me/").status_code for _ in range(40)} == {200}


def unreachable():
    raise OSError


@pytest.mark.django_db(transaction=True)
def test_of_two_requests_at_once_with_one_key_one_is_done(people):
    answers = []

    def ask(user):
        try:
            answers.append(signed_in(user).post(MODELS, NEW, headers={"Idempotency-Key": "k"}).status_code)
        finally:
            connection.close()

    askers = [threading.Thread(target=ask, args=[people.operator]) for _ in range(4)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    assert answers == [201] * 4
    assert Model.objects.count() == 1


def test_a_token_may_not_look_by_a_dry_run_at_what_it_may_not_read(people):
    from apps.tenants.services import create_service_token  # noqa: PLC0415 - with its owner only here

    _, text = create_service_token(
        actor=SYSTEM, owner=people.owner, name="maker", scopes=["keys:write"], expires_at=None, now=NOW
    )
    key = signed_in(people.owner).post("/api/v1/api-keys/", {"name": "a", "tenant_id": str(people.tenant.pk)}).json()
    client = APIClient(headers={"Authorization": f"Bearer {text}"})
    tried = client.delete(f"/api/v1/api-keys/{key['id']}/?dry_run=1")
    assert (tried.status_code, tried.json()["before"]) == (200, None)


@pytest.mark.parametrize("path", ["/api/v1/nodes/", "/sign-in/"])
def test_whoever_asks_by_a_name_that_is_not_listed_is_told_where_it_is_listed(path):
    answer = APIClient().get(path, HTTP_HOST="elsewhere.example")
    said = answer.content.decode()
    assert answer.status_code == 400
    assert "does not answer by the name that was asked for" in said
    assert "TOKENYARD_ALLOWED_HOSTS" in said
    assert "elsewhere" not in said

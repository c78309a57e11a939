"""Scopes and rotation of keys, service accounts and their tokens, the platform's users, and the audit trail by REST."""

from datetime import timedelta

import pytest
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.quotas.services import open_tenant_below
from apps.routing.services.snapshots import compile_snapshot
from apps.tenants.models import APIKey, Membership, User
from apps.tenants.services import create_key, create_service_account, create_service_token
from tests.factories.domain import NOW, make_version

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

KEYS = "/api/v1/api-keys/"


@pytest.fixture
def key(people):
    made, _ = create_key(
        actor=SYSTEM,
        tenant=people.tenant,
        name="ci",
        owner_id=people.teammate.pk,
        allowed_models=["demo-chat"],
        allowed_paths=["/v1/chat/completions"],
        allowed_networks=["10.0.0.0/8"],
        expires_at=timezone.now() + timedelta(days=30),
        now=timezone.now(),
    )
    return made


def bearer(client, text, method="get", path="/api/v1/me/", body=None):
    send = getattr(client, method)
    return send(path, body, content_type="application/json", headers={"Authorization": f"Bearer {text}"})


# -- scopes and rotation


def test_a_keys_scope_is_stored_one_way_and_reaches_the_gateways(people, as_user):
    new = {
        "tenant_id": str(people.tenant.pk),
        "name": "laptop",
        "paths": ["/v1/models", "/v1/chat/completions"],
        "networks": ["192.0.2.7", "10.1.2.3/8"],
    }
    made = as_user(people.teammate).post(KEYS, new).json()
    assert (made["paths"], made["networks"]) == (["/v1/chat/completions", "/v1/models"], ["10.0.0.0/8", "192.0.2.7/32"])
    (grant,) = [
        one for one in compile_snapshot(generation=1, pools=[], now=timezone.now()).keys if one.key_id == made["id"]
    ]
    assert (grant.paths, grant.networks) == (made["paths"], made["networks"])


@pytest.mark.parametrize(
    ("field", "value"), [("networks", ["10.0.0.0/33"]), ("networks", ["x"] * 65), ("paths", ["/v1/nothing"])]
)
def test_a_scope_that_cannot_be_is_refused_beside_its_field(field, value, people, as_user):
    answer = as_user(people.owner).post(KEYS, {"tenant_id": str(people.tenant.pk), "name": "k", field: value})
    assert answer.status_code == 400
    assert [name for name in answer.json()["fields"] if name.startswith(field)]


def test_a_rotated_key_has_the_same_scope_and_the_old_one_ends_after_the_overlap(people, as_user, key):
    made = as_user(people.teammate).post(f"{KEYS}{key.pk}/rotation/", {"overlap_s": 3600}).json()
    new = APIKey.objects.get(pk=made["id"])
    for field in ("allowed_models", "allowed_paths", "allowed_networks", "owner_id", "tenant_id"):
        assert getattr(new, field) == getattr(key, field)
    assert made["replaces_id"] == str(key.pk)
    key.refresh_from_db()
    now = timezone.now()
    assert key.is_usable(now + timedelta(seconds=3500))
    assert not key.is_usable(now + timedelta(seconds=3700))
    assert {one.key_id for one in compile_snapshot(generation=1, pools=[], now=now).keys} == {str(key.pk), made["id"]}


def test_a_rotation_without_overlap_ends_the_old_key_at_once(people, as_user, key):
    as_user(people.owner).post(f"{KEYS}{key.pk}/rotation/", {"overlap_s": 0})
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_key_is_rotated_once_and_only_while_it_works(people, as_user, key):
    path, owner = f"{KEYS}{key.pk}/rotation/", as_user(people.owner)
    assert owner.post(path, {}).status_code == 201
    assert owner.post(path, {}).status_code == 409
    assert owner.post(f"{KEYS}{key.pk}/rotation/", {"overlap_s": 10**9}).status_code in {400, 409}
    owner.delete(f"{KEYS}{key.pk}/")
    assert owner.post(path, {}).status_code == 409


def test_a_tenant_has_no_more_keys_that_work_than_the_setting_says(people, as_user, settings):
    settings.KEYS_MOST, settings.KEYS_MOST_EACH = 3, 2
    tenant, owner, teammate = {"tenant_id": str(people.tenant.pk), "name": "k"}, people.owner, people.teammate
    made = [as_user(teammate).post(KEYS, tenant).json() for _ in range(2)]
    assert as_user(teammate).post(KEYS, tenant).json()["code"] == "too_many_keys", "the third of one person"
    made.append(as_user(owner).post(KEYS, tenant).json())
    refused = as_user(owner).post(KEYS, tenant)
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_keys")
    assert as_user(people.stranger).post(KEYS, tenant | {"tenant_id": str(people.other.pk)}).status_code == 201
    assert as_user(owner).post("/api/v1/playground-keys/", {"tenant_id": tenant["tenant_id"]}).status_code == 201
    for each in made:
        assert as_user(owner).post(f"{KEYS}{each['id']}/rotation/", {"overlap_s": 600}).status_code == 201
    assert as_user(owner).post(KEYS, tenant).status_code == 409, "the new ones stand for the old ones"
    newest = APIKey.objects.filter(replaces_id=made[2]["id"]).get()
    assert as_user(owner).post(f"{KEYS}{newest.pk}/rotation/", {"overlap_s": 9}).json()["code"] == "too_many_keys"
    as_user(owner).delete(f"{KEYS}{newest.pk}/")
    assert as_user(owner).post(KEYS, tenant).status_code == 201


def test_a_person_has_no_more_tokens_that_work_than_the_setting_says(people, as_user, settings):
    settings.TOKENS_MOST_EACH = 2
    ask = as_user(people.owner)
    made = [ask.post("/api/v1/service-tokens/", {"name": "t"}).json() for _ in range(2)]
    refused = ask.post("/api/v1/service-tokens/", {"name": "t"})
    assert (refused.status_code, refused.json()["code"]) == (409, "too_many_tokens")
    ask.delete(f"/api/v1/service-tokens/{made[0]['id']}/")
    assert ask.post("/api/v1/service-tokens/", {"name": "t"}).status_code == 201


def test_finance_reads_which_versions_there_are_and_changes_none(people, as_user):
    version = make_version()
    for address, rows in (("models/", 1), ("versions/", 1), (f"models/{version.model_id}/versions/", 1)):
        assert len(as_user(people.finance).get(f"/api/v1/{address}").json()["results"]) == rows
    assert as_user(people.finance).get(f"/api/v1/versions/{version.pk}/").status_code == 200
    assert as_user(people.finance).delete(f"/api/v1/versions/{version.pk}/").status_code == 403
    assert as_user(people.owner).get("/api/v1/versions/").status_code == 403


def test_a_key_is_rotated_by_its_maker_and_admins_and_not_by_others(people, as_user, key):
    path = f"{KEYS}{key.pk}/rotation/"
    assert as_user(people.stranger).post(path, {}).status_code == 404
    assert as_user(people.viewer).post(path, {}).status_code == 403
    assert as_user(people.teammate).post(path, {}).status_code == 201


# -- service accounts and tokens


@pytest.fixture
def account(people):
    return create_service_account(actor=SYSTEM, tenant=people.tenant, name="ci", role="developer", now=NOW)


def test_a_service_account_acts_within_its_role_and_its_tokens_scopes(people, client, as_user):
    path = f"/api/v1/tenants/{people.tenant.pk}/service-accounts/"
    for user, status in ((people.stranger, 404), (people.teammate, 403), (people.owner, 201)):
        made = as_user(user).post(path, {"name": "deploy", "role": "developer"})
        assert made.status_code == status
    tokens = f"{path}{made.json()['id']}/tokens/"
    assert as_user(people.stranger).post(tokens, {"name": "t"}).status_code == 404
    text = as_user(people.owner).post(tokens, {"name": "t", "scopes": ["keys:read"]}).json()["token"]
    assert bearer(client, text, path=KEYS).status_code == 200
    new = {"tenant_id": str(people.tenant.pk), "name": "k"}
    assert bearer(client, text, "post", KEYS, new).status_code == 403
    assert text not in as_user(people.owner).get(tokens).content.decode()


def test_a_token_has_no_scope_that_its_owner_lacks(people, as_user, account):
    tokens = f"/api/v1/tenants/{people.tenant.pk}/service-accounts/{account.pk}/tokens/"
    answer = as_user(people.owner).post(tokens, {"name": "t", "scopes": ["platform:write"]})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["scopes"])


def test_a_token_gives_on_no_more_than_it_has(people, client):
    _, text = create_service_token(
        actor=SYSTEM, owner=people.owner, name="narrow", scopes=["self", "tenant:read"], now=timezone.now()
    )
    wider = bearer(client, text, "post", "/api/v1/service-tokens/", {"name": "wider", "scopes": ["keys:write"]})
    assert wider.status_code == 400
    same = bearer(client, text, "post", "/api/v1/service-tokens/", {"name": "same"}).json()
    assert same["scopes"] == ["self", "tenant:read"]


def test_a_token_makes_a_service_account_none_that_outlives_it(people, client, account):
    end = timezone.now() + timedelta(hours=1)
    _, text = create_service_token(actor=SYSTEM, owner=people.owner, name="t", expires_at=end, now=timezone.now())
    tokens = f"/api/v1/tenants/{people.tenant.pk}/service-accounts/{account.pk}/tokens/"
    assert parse_datetime(bearer(client, text, "post", tokens, {"name": "n"}).json()["expires_at"]) == end
    refused = bearer(client, text, "post", tokens, {"name": "later", "expires_at": "2031-01-01T00:00:00Z"})
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["expires_at"])


@pytest.mark.parametrize(("scope", "expected"), [("keys:revoke", 204), ("keys:write", 403), ("keys:read", 403)])
def test_the_scope_that_revokes_anybodys_key_is_enough_for_that(people, client, key, scope, expected):
    now = timezone.now()
    _, text = create_service_token(actor=SYSTEM, owner=people.owner, name="t", scopes=[scope], now=now)
    assert bearer(client, text, "delete", f"{KEYS}{key.pk}/").status_code == expected
    rotation = bearer(client, text, "post", f"{KEYS}{key.pk}/rotation/", {"overlap_s": 0})
    assert rotation.status_code == 403


@pytest.mark.parametrize(("path", "scope"), [(KEYS, "keys:read"), ("/api/v1/tenants/", "tenant:read")])
def test_a_token_lists_what_it_may_read_one_by_one(people, client, key, path, scope):
    def ask(scopes):
        _, text = create_service_token(actor=SYSTEM, owner=people.operator, name="t", scopes=scopes, now=timezone.now())
        return bearer(client, text, path=path).status_code

    assert (ask([scope]), ask(["self"]), ask(["platform:write"])) == (200, 403, 403)


def test_a_token_without_the_account_in_its_scopes_leaves_other_tokens_and_sessions_alone(people, client):
    now = timezone.now()
    _, text = create_service_token(actor=SYSTEM, owner=people.owner, name="t", scopes=["tenant:read"], now=now)
    other, _ = create_service_token(actor=SYSTEM, owner=people.owner, name="other", now=now)
    assert bearer(client, text, "post", "/api/v1/service-tokens/", {"name": "more"}).status_code == 403
    assert bearer(client, text, "delete", f"/api/v1/service-tokens/{other.pk}/").status_code == 403
    assert bearer(client, text, "delete", "/api/v1/sessions/").status_code == 403
    assert bearer(client, text, "get", "/api/v1/me/").status_code == 200


def test_a_token_makes_none_that_outlives_it(people, client):
    ends_at = timezone.now() + timedelta(hours=1)
    _, text = create_service_token(
        actor=SYSTEM, owner=people.owner, name="short", expires_at=ends_at, now=timezone.now()
    )

    def made(**facts):
        return bearer(client, text, "post", "/api/v1/service-tokens/", {"name": "next"} | facts)

    later = made(expires_at=(ends_at + timedelta(seconds=1)).isoformat())
    assert (later.status_code, list(later.json()["fields"])) == (400, ["expires_at"])
    assert parse_datetime(made().json()["expires_at"]) == ends_at
    sooner = ends_at - timedelta(minutes=1)
    assert parse_datetime(made(expires_at=sooner.isoformat()).json()["expires_at"]) == sooner


def test_a_role_that_is_taken_away_takes_the_tokens_power_with_it(people, client, account):
    _, text = create_service_token(actor=SYSTEM, owner=account.user, name="t", now=timezone.now())
    new = {"tenant_id": str(people.tenant.pk), "name": "k"}
    assert bearer(client, text, "post", KEYS, new).status_code == 201
    Membership.objects.filter(pk=account.pk).update(role="viewer")
    assert bearer(client, text, "post", KEYS, new).status_code == 403


def test_a_removed_service_account_takes_tokens_and_keys_with_it(people, client, as_user, account):
    _, text = create_service_token(actor=SYSTEM, owner=account.user, name="t", now=timezone.now())
    key, _ = create_key(actor=SYSTEM, tenant=people.tenant, name="k", owner_id=account.user_id, now=timezone.now())
    path = f"/api/v1/tenants/{people.tenant.pk}/service-accounts/{account.pk}/"
    assert as_user(people.stranger).delete(path).status_code == 404
    assert as_user(people.owner).delete(path).status_code == 204
    assert bearer(client, text).status_code == 401
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_a_service_account_signs_in_nowhere(client, account):
    answer = client.post("/sign-in/", {"name": account.user.username, "password": "anything at all"})
    assert "do not belong together" in answer.content.decode()


# -- the platform's users


def test_platform_roles_are_given_by_platform_admins_only(people, as_user):
    path = f"/api/v1/users/{people.teammate.pk}/"
    for user in (people.operator, people.finance, people.owner, people.stranger):
        assert as_user(user).patch(path, {"is_operator": True}).status_code == 403
    assert as_user(people.platform_admin).patch(path, {"is_operator": True}).json()["is_operator"] is True
    assert as_user(people.teammate).get("/api/v1/nodes/").status_code == 200


def test_the_last_platform_admin_stays_one(people, as_user):
    admin, path = as_user(people.platform_admin), f"/api/v1/users/{people.platform_admin.pk}/"
    assert admin.patch(path, {"is_platform_admin": False}).status_code == 409
    assert admin.patch(path, {"is_active": False}).status_code == 409
    User.objects.filter(pk=people.operator.pk).update(is_platform_admin=True)
    assert admin.patch(path, {"is_platform_admin": False}).status_code == 200


def test_who_is_disabled_is_signed_out_and_its_tokens_stop(people, client, as_user):
    browser = as_user(people.teammate)
    _, text = create_service_token(actor=SYSTEM, owner=people.teammate, name="t", now=timezone.now())
    as_user(people.platform_admin).patch(f"/api/v1/users/{people.teammate.pk}/", {"is_active": False})
    assert browser.get("/api/v1/me/").status_code == 401
    assert bearer(client, text).status_code == 401


# -- the audit trail


def test_the_trail_is_read_by_operators_and_of_their_own_by_admins(people, as_user, key):
    create_key(actor=SYSTEM, tenant=people.other, name="theirs", now=NOW)
    path = "/api/v1/audit/"
    tenants_seen = {
        who: {row["tenant_id"] for row in as_user(getattr(people, who)).get(path).json()["results"]}
        for who in ("owner", "stranger", "operator")
    }
    mine, theirs = str(people.tenant.pk), str(people.other.pk)
    assert tenants_seen == {"owner": {mine}, "stranger": {theirs}, "operator": {mine, theirs, None}}
    assert as_user(people.teammate).get(path).status_code == 403
    assert as_user(people.stranger).get(path, {"tenant": mine}).status_code == 404


def test_the_trail_of_a_tenant_holds_the_tokens_of_its_programs_and_of_no_person(people, as_user, account):
    tokens = f"/api/v1/tenants/{people.tenant.pk}/service-accounts/{account.pk}/tokens/"
    owner = as_user(people.owner)
    made = owner.post(tokens, {"name": "t"}).json()
    owner.delete(f"{tokens}{made['id']}/")
    owner.post("/api/v1/service-tokens/", {"name": "own"})
    trail = owner.get("/api/v1/audit/", {"subject_type": "servicetoken"}).json()["results"]
    assert [(entry["action"], entry["subject_id"]) for entry in trail] == [
        ("service_token.revoked", made["id"]), ("service_token.created", made["id"]),
    ]  # fmt: skip


def test_the_trail_of_a_tenant_holds_what_is_below(people, as_user):
    team = open_tenant_below(actor=SYSTEM, parent=people.tenant, name="search", now=NOW)
    rows = as_user(people.owner).get("/api/v1/audit/", {"tenant": str(people.tenant.pk), "q": "search"}).json()
    assert str(team.pk) in {row["tenant_id"] for row in rows["results"]}


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"action": "key.created"}, 1),
        ({"subject_type": "apikey"}, 1),
        ({"q": "ci"}, 1),
        ({"since": "2999-01-01T00:00:00Z"}, 0),
        ({"until": "2000-01-01T00:00:00Z"}, 0),
        ({"action": "no.such"}, 0),
    ],
)
def test_the_trail_is_filtered(query, count, people, as_user, key):
    assert len(as_user(people.owner).get("/api/v1/audit/", query).json()["results"]) == count


@pytest.mark.parametrize("query", [{"since": "yesterday"}, {"tenant": "x"}, {"actor_id": "1"}, {"cursor": "%00"}])
def test_a_damaged_filter_is_a_problem_and_not_a_crash(query, people, as_user):
    assert as_user(people.operator).get("/api/v1/audit/", query).status_code in {400, 404}


def test_the_trail_comes_in_pages_that_stay_put(people, as_user):
    for number in range(5):
        create_key(actor=SYSTEM, tenant=people.tenant, name=f"k{number}", now=NOW)
    client = as_user(people.owner)
    first = client.get("/api/v1/audit/", {"page_size": 3, "action": "key.created"}).json()
    create_key(actor=SYSTEM, tenant=people.tenant, name="newer", now=NOW)
    second = client.get(first["next"]).json()
    names = [row["subject_name"].split()[0] for page in (first, second) for row in page["results"]]
    assert names == ["k4", "k3", "k2", "k1", "k0"]


def test_the_trail_as_csv_is_what_the_page_shows(people, as_user, key):
    lines = b"".join(as_user(people.owner).get("/audit.csv", {"action": "key.created"})).decode().splitlines()
    assert len(lines) == 2
    assert as_user(people.teammate).get("/audit.csv").status_code == 403


def test_every_write_of_a_key_leaves_who_what_and_when(people, as_user, key):
    as_user(people.owner).delete(f"{KEYS}{key.pk}/")
    entry = AuditEntry.objects.get(action="key.revoked")
    assert (entry.actor_name, entry.subject_id, entry.tenant_id) == ("owner", str(key.pk), people.tenant.pk)


def test_a_platform_admin_takes_an_address_from_an_account_and_gives_another(people, as_user):
    path = f"/api/v1/users/{people.viewer.pk}/"
    admin = as_user(people.platform_admin)
    assert admin.patch(path, {"email": "new@example.org"}).json()["email"] == "new@example.org"
    assert admin.patch(path, {"is_active": True}).json()["email"] == "new@example.org"
    assert admin.patch(f"/api/v1/users/{people.owner.pk}/", {"email": "NEW@example.org"}).status_code in {400, 409}
    assert admin.patch(path, {"email": ""}).json()["email"] == ""

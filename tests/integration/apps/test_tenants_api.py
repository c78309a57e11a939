"""Owner, teammate and a stranger of another tenant, at every door to a tenant's data."""

import pytest
from django.utils import timezone

from apps.common.actors import SYSTEM
from apps.common.credentials import sha256_of
from apps.tenants.models import APIKey, Membership
from apps.tenants.selectors import actor_of
from apps.tenants.services import create_key, create_service_token, mint_playground_key
from tests.factories.domain import NOW, PASSWORD

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

KEYS = "/api/v1/api-keys/"


@pytest.fixture
def key(people):
    made, _ = create_key(actor=SYSTEM, tenant=people.tenant, name="ci", owner_id=people.owner.pk, now=NOW)
    return made


def names(response):
    assert response.status_code == 200, response.content
    return [row["name"] for row in response.json()["results"]]


def test_a_key_is_shown_once_and_stored_as_a_hash(people, as_user):
    client = as_user(people.teammate)
    created = client.post(KEYS, {"tenant_id": str(people.tenant.pk), "name": "laptop", "models": ["demo-chat"]})
    assert created.status_code == 201
    text = created.json()["key"]
    row = APIKey.objects.get(pk=created.json()["id"])
    assert (row.key_sha256, row.owner, row.allowed_models) == (sha256_of(text), people.teammate, ["demo-chat"])
    assert text not in client.get(KEYS).content.decode()
    assert row.key_sha256 not in client.get(KEYS).content.decode()


def test_keys_are_seen_by_owner_and_teammate_and_not_by_the_stranger(people, as_user, key):
    assert names(as_user(people.owner).get(KEYS)) == ["ci"]
    assert names(as_user(people.teammate).get(KEYS)) == ["ci"]
    assert names(as_user(people.stranger).get(KEYS)) == []
    assert names(as_user(people.operator).get(KEYS)) == ["ci"]
    assert names(as_user(people.finance).get(KEYS)) == []


def test_a_single_key_does_not_exist_for_the_stranger(people, as_user, key):
    path = f"{KEYS}{key.pk}/"
    assert as_user(people.owner).get(path).status_code == 200
    assert as_user(people.teammate).get(path).status_code == 200
    assert as_user(people.stranger).get(path).status_code == 404


def test_a_key_is_revoked_by_its_tenants_admin_but_not_by_others(people, as_user, key):
    path = f"{KEYS}{key.pk}/"
    assert as_user(people.stranger).delete(path).status_code == 404
    assert as_user(people.viewer).delete(path).status_code == 403
    assert as_user(people.teammate).delete(path).status_code == 403
    assert as_user(people.owner).delete(path).status_code == 204
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_keys_are_made_for_ones_own_tenant_only(people, as_user):
    new = {"tenant_id": str(people.tenant.pk), "name": "k"}
    assert as_user(people.owner).post(KEYS, new).status_code == 201
    assert as_user(people.viewer).post(KEYS, new).status_code == 403
    assert as_user(people.finance).post(KEYS, new).status_code == 403
    assert as_user(people.stranger).post(KEYS, new).status_code == 404


def test_a_playground_key_ends_by_itself_and_stays_out_of_the_list(people, as_user):
    client = as_user(people.teammate)
    minted = client.post("/api/v1/playground-keys/", {"tenant_id": str(people.tenant.pk)})
    assert minted.status_code == 201
    assert APIKey.objects.get(pk=minted.json()["id"]).expires_at > timezone.now()
    assert names(client.get(KEYS)) == []
    assert (
        as_user(people.stranger).post("/api/v1/playground-keys/", {"tenant_id": str(people.tenant.pk)}).status_code
        == 404
    )


def test_playground_keys_of_one_person_are_bounded(people):
    actor = actor_of(people.teammate)
    for _ in range(8):
        mint_playground_key(actor=actor, tenant=people.tenant, now=NOW)
    assert APIKey.objects.usable(NOW).filter(owner=people.teammate).count() == 5


def test_members_are_managed_by_the_owner_only(people, as_user):
    path = f"/api/v1/tenants/{people.tenant.pk}/members/"
    new = {"username": "newcomer", "role": "developer", "password": PASSWORD}
    assert as_user(people.stranger).get(path).status_code == 404
    assert as_user(people.stranger).post(path, new).status_code == 404
    assert as_user(people.finance).get(path).status_code == 403
    assert len(as_user(people.teammate).get(path).json()["results"]) == 3
    assert as_user(people.teammate).post(path, new).status_code == 403
    created = as_user(people.owner).post(path, new)
    assert created.status_code == 201
    assert "password" not in created.json()
    member = f"{path}{created.json()['id']}/"
    assert as_user(people.stranger).patch(member, {"role": "viewer"}).status_code == 404
    assert as_user(people.teammate).patch(member, {"role": "viewer"}).status_code == 403
    assert as_user(people.owner).patch(member, {"role": "viewer"}).json()["role"] == "viewer"
    assert as_user(people.teammate).delete(member).status_code == 403
    assert as_user(people.owner).delete(member).status_code == 204


def test_a_members_role_is_not_changed_over_somebody_elses_change(people, as_user):
    path = f"/api/v1/tenants/{people.tenant.pk}/members/"
    found = as_user(people.owner).get(path).json()["results"]
    path += next(each["id"] for each in found if each["username"] == people.teammate.username) + "/"
    assert as_user(people.stranger).get(path).status_code == 404
    assert as_user(people.finance).get(path).status_code == 403
    tag = as_user(people.teammate).get(path)["ETag"]
    change = {"role": "viewer"}
    assert as_user(people.teammate).patch(path, change, headers={"If-Match": tag}).status_code == 403
    assert as_user(people.owner).patch(path, change, headers={"If-Match": tag}).status_code == 200
    assert as_user(people.owner).patch(path, {"role": "developer"}, headers={"If-Match": tag}).status_code == 412
    assert as_user(people.owner).get(path).json()["role"] == "viewer"


def test_a_tenant_admin_cannot_pull_in_a_user_of_another_tenant(people, as_user):
    path = f"/api/v1/tenants/{people.tenant.pk}/members/"
    assert as_user(people.owner).post(path, {"username": "stranger", "role": "viewer"}).status_code == 403
    assert as_user(people.operator).post(path, {"username": "stranger", "role": "viewer"}).status_code == 201


def test_a_tenant_keeps_an_admin(people, as_user):
    admin = Membership.objects.get(user=people.owner)
    path = f"/api/v1/tenants/{people.tenant.pk}/members/{admin.pk}/"
    assert as_user(people.owner).delete(path).status_code == 409
    assert as_user(people.owner).patch(path, {"role": "viewer"}).status_code == 409


def test_the_keys_of_a_member_who_leaves_stop_working(people, as_user):
    key, _ = create_key(actor=SYSTEM, tenant=people.tenant, name="k", owner_id=people.teammate.pk, now=NOW)
    member = Membership.objects.get(user=people.teammate)
    as_user(people.owner).delete(f"/api/v1/tenants/{people.tenant.pk}/members/{member.pk}/")
    key.refresh_from_db()
    assert key.revoked_at is not None


def test_tenants_are_listed_for_those_who_belong_and_for_the_platform(people, as_user):
    path = "/api/v1/tenants/"
    assert names(as_user(people.owner).get(path)) == ["gold"]
    assert names(as_user(people.teammate).get(path)) == ["gold"]
    assert names(as_user(people.stranger).get(path)) == ["batch"]
    assert names(as_user(people.finance).get(path)) == ["batch", "gold"]


def test_a_policy_is_read_by_members_and_set_by_operators(people, as_user):
    path = f"/api/v1/tenants/{people.tenant.pk}/policy/"
    new = {"service_class": "first", "slo_profile": "quick", "weight": 2.0}
    assert as_user(people.teammate).get(path).json()["weight"] == 1.0
    assert as_user(people.stranger).get(path).status_code == 404
    assert as_user(people.owner).put(path, new).status_code == 403
    assert as_user(people.operator).put(path, new).json()["weight"] == 2.0


def test_a_service_token_acts_as_its_owner_until_it_is_revoked(people, client, as_user):
    token, text = create_service_token(actor=SYSTEM, owner=people.owner, name="ci", now=NOW)
    header = {"Authorization": f"Bearer {text}"}
    assert client.get("/api/v1/me/", headers=header).json()["name"] == "owner"
    assert as_user(people.stranger).delete(f"/api/v1/service-tokens/{token.pk}/").status_code == 404
    assert as_user(people.owner).delete(f"/api/v1/service-tokens/{token.pk}/").status_code == 204
    assert client.get("/api/v1/me/", headers=header).status_code == 401


def test_who_is_not_signed_in_gets_a_problem_and_a_challenge(client, db):
    response = client.get("/api/v1/me/")
    assert response.status_code == 401
    assert response["Content-Type"] == "application/problem+json"
    assert response["WWW-Authenticate"].startswith("Bearer")

"""What was made can be read by itself, and its ETag from then on keeps two people from undoing each other's work."""

import pytest
from rest_framework.test import APIClient

from tests.factories.domain import make_people

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

TENANT = "tenants/{tenant}/"
# Where it is made, how, and where it is afterwards.
MADE = [
    ("api-keys/", {"tenant_id": "{tenant}", "name": "ci"}, "api-keys/{id}/"),
    ("service-tokens/", {"name": "ci"}, "service-tokens/{id}/"),
    ("join-tokens/", {}, "join-tokens/{id}/"),
    ("default-limits/", {"kind": "requests_per_minute", "amount": "5"}, "limits/{id}/"),
    (TENANT + "limits/", {"kind": "cost_per_day", "amount": "5"}, "limits/{id}/"),
    (TENANT + "blocks/", {"scope": "tenant", "reason": "unpaid"}, "blocks/{id}/"),
    (TENANT + "invitations/", {"email": "a@b.example", "role": "viewer"}, TENANT + "invitations/{id}/"),
    (TENANT + "service-accounts/", {"name": "bot", "role": "viewer"}, TENANT + "service-accounts/{id}/"),
]
UNTAGGED = {"join-tokens/"}  # it is answered with the lines to type on the machine


@pytest.mark.parametrize(("where", "body", "there"), MADE, ids=[where for where, _, _ in MADE])
def test_what_was_made_is_there_under_the_tag_that_it_was_made_with(where, body, there):
    people, client = make_people(), APIClient()
    client.force_login(people.platform_admin)
    tenant = str(people.tenant.pk)
    sent = {name: value.format(tenant=tenant) for name, value in body.items()}
    made = client.post(f"/api/v1/{where.format(tenant=tenant)}", sent)
    assert made.status_code == 201, made.content
    path = f"/api/v1/{there.format(tenant=tenant, id=made.json()['id'])}"
    seen = client.get(path)
    assert seen.status_code == 200
    assert where in UNTAGGED or made["ETag"] == seen["ETag"]
    assert client.delete(path, headers={"If-Match": '"of something else"'}).status_code == 412
    assert client.delete(path, headers={"If-Match": seen["ETag"]}).status_code == 204


def test_a_session_and_a_token_of_an_account_are_read_by_themselves():
    people, client = make_people(), APIClient()
    client.force_login(people.platform_admin)
    accounts = f"/api/v1/tenants/{people.tenant.pk}/service-accounts/"
    account = client.post(accounts, {"name": "bot", "role": "viewer"}).json()["id"]
    made = client.post(f"{accounts}{account}/tokens/", {"name": "ci"})
    seen = client.get(f"{accounts}{account}/tokens/{made.json()['id']}/")
    assert (seen.status_code, seen["ETag"], "token" in seen.json()) == (200, made["ETag"], False)
    assert client.get(f"/api/v1/sessions/{made.json()['id']}/").status_code == 404

"""Secrets are planted everywhere a person or a program gives one, and then looked for everywhere anything comes out."""

import io
import logging

import pyotp
import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from apps.audit.models import AuditEntry
from apps.console.urls import urlpatterns
from apps.identity.services.second_factor import begin_enrolment, confirm_enrolment
from apps.tenants.models import APIKey
from apps.tenants.selectors import actor_of
from controlplane.logs import LineFormatter, RedactSecrets
from tests.factories.domain import PASSWORD
from tests.factories.usage import ingest_records, make_record
from tests.factories.yard import make_yard

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

EXPORTS = (
    "audit.csv", "requests.csv", "api/v1/audit/", "api/v1/usage/records.csv", "api/v1/usage/records/",
    "api/v1/usage/report.csv?group_by=day,key", "api/v1/usage/focus.csv", "api/v1/usage/outcomes.csv",
    "api/v1/budgets/",
)  # fmt: skip
REST = ("me", "api-keys", "service-tokens", "users", "tenants", "nodes")


@pytest.fixture
def logged():
    """What the process would have written to its log, debugging included."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.addFilter(RedactSecrets())
    handler.setFormatter(LineFormatter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    yield stream
    root.removeHandler(handler)
    root.setLevel(level)


def json_of(client, method, path, body):
    return getattr(client, method)(path, body, content_type="application/json").json()


@pytest.fixture
def planted(valkey, logged, django_capture_on_commit_callbacks):
    """Everything secret that was said or shown once, and the people who may look for it."""
    yard = make_yard()
    people, admin = yard.people, Client()
    admin.force_login(people.platform_admin)
    tenant = f"/api/v1/tenants/{people.tenant.pk}"
    key = json_of(admin, "post", "/api/v1/api-keys/", {"tenant_id": str(people.tenant.pk), "name": "planted"})
    rotated = json_of(admin, "post", f"/api/v1/api-keys/{key['id']}/rotation/", {"overlap_s": 3600})
    token = json_of(admin, "post", "/api/v1/service-tokens/", {"name": "planted"})
    node = json_of(admin, "post", f"/api/v1/nodes/{yard.node.pk}/agent-token/", {})
    hook = {"name": "planted", "amount_usd": "5", "tenant_id": str(people.tenant.pk)}
    budget = json_of(admin, "post", "/api/v1/budgets/", hook | {"webhook_url": "https://example.org/hook"})
    ingest_records(
        records=[make_record(tenant_id=str(people.tenant.pk), key_id=key["id"])],
        node_id=yard.node.pk,
        now=timezone.now(),
    )
    account = json_of(admin, "post", f"{tenant}/service-accounts/", {"name": "robot", "role": "viewer"})
    robot = json_of(admin, "post", f"{tenant}/service-accounts/{account['id']}/tokens/", {"name": "planted"})
    with django_capture_on_commit_callbacks(execute=True):
        invited = json_of(admin, "post", f"{tenant}/invitations/", {"email": "new@example.org", "role": "viewer"})
        people.owner.email = "owner@example.org"
        people.owner.save()
        Client().post("/sign-in/reset/", {"name": "owner"})
    reset = next(letter.body for letter in mail.outbox if "typ-" in letter.body).split("/reset/")[1].split("/")[0]
    seed = begin_enrolment(user=people.viewer, now=timezone.now())
    codes = confirm_enrolment(
        actor=actor_of(people.viewer), user=people.viewer, code=pyotp.TOTP(seed).now(), now=timezone.now()
    )
    secrets = {
        "password": PASSWORD,
        "api key": key["key"],
        "rotated key": rotated["key"],
        "service token": token["token"],
        "service account's token": robot["token"],
        "agent token": node["agent_token"],
        "invitation": invited["link"].split("/invitations/")[1].strip("/"),
        "password reset": reset,
        "TOTP seed": seed,
        "key of a webhook": budget["webhook_key"],
        "recovery code": codes[0],
        "hash of a key": APIKey.objects.get(pk=key["id"]).key_sha256,
        "guessed password": "Tr0ub4dor&3-planted",
    }
    return yard, admin, secrets


def found_in(text, secrets):
    return [name for name, secret in secrets.items() if secret in text or secret.replace("-", "") in text]


def test_no_page_and_no_export_shows_a_secret(planted):
    yard, admin, secrets = planted
    owner = Client()
    owner.force_login(yard.people.owner)
    for browser in (admin, owner):
        for pattern in urlpatterns:
            if {"token"} & set(pattern.pattern.converters) or pattern.name in {"device_add", "sign_out"}:
                continue
            parts = {part: yard.address_parts.get(part) for part in pattern.pattern.converters}
            if None in parts.values():
                continue
            answer = browser.get(reverse(f"console:{pattern.name}", kwargs=parts))
            assert found_in(b"".join(answer).decode(errors="replace"), secrets) == [], pattern.name
        for path in (*EXPORTS, *(f"api/v1/{name}/" for name in REST)):
            answer = browser.get(f"/{path}")
            assert found_in(b"".join(answer).decode(errors="replace"), secrets) == [], path


def test_no_secret_is_in_the_audit_trail(planted):
    _, _, secrets = planted
    assert found_in(str(list(AuditEntry.objects.values())), secrets) == []


def test_no_answer_to_a_mistake_repeats_a_secret_that_was_sent(planted):
    yard, _, secrets = planted
    people = yard.people
    told = []
    for secret in secrets.values():
        bearer = {"Authorization": f"Bearer {secret}x"}
        told.append(Client().get("/api/v1/me/", headers=bearer).content)
        told.append(Client().post("/sign-in/", {"name": "owner", "password": secret + "x"}).content)
        told.append(Client().get(f"/invitations/{secret.replace('/', '')}x/").content)
        told.append(Client().get(f"/sign-in/reset/{secret.replace('/', '')}x/").content)
    browser = Client()
    browser.force_login(people.owner)
    new = {"username": "x@y", "role": "viewer", "password": secrets["guessed password"]}
    told.append(
        browser.post(f"/api/v1/tenants/{people.tenant.pk}/members/", new, content_type="application/json").content
    )
    told.append(browser.post(f"/tenants/{people.tenant.pk}/members/new/", new).content)
    assert found_in(b"".join(told).decode(errors="replace"), secrets) == []


def test_no_secret_is_in_the_log(planted, logged):
    yard, _, secrets = planted
    sent = {name: secret for name, secret in secrets.items() if name not in {"password", "hash of a key"}}
    for secret in sent.values():
        Client().get(f"/invitations/{secret}/")
        Client().get("/api/v1/me/", headers={"Authorization": f"Bearer {secret}"})
        Client().post("/sign-in/", {"name": "owner", "password": secret})
    browser = Client()
    browser.force_login(yard.people.owner)
    browser.get("/api/v1/tenants/nothing/")
    written = logged.getvalue()
    assert "not found" in written.lower()
    credentials = {
        name: secret for name, secret in sent.items() if secret.startswith(("ty-", "tys-", "tya-", "tyi-", "typ-"))
    }
    assert len(credentials) == 7
    assert found_in(written, credentials) == []

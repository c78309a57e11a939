"""Prompts are kept only for tenants that ask, shown only to their own people, and gone when they should be."""

import base64
from datetime import timedelta

import pytest
from django.test import Client
from rest_framework.test import APIClient

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.routing.services.snapshots import compile_snapshot
from apps.telemetry.models import KeptPrompt, PromptChoice
from apps.telemetry.selectors.prompts import prompt_key_text
from apps.telemetry.services.prompts import forget_old_prompts, keep_prompts, store_prompts
from apps.tenants.services import remove_tenant, revoke_key
from tests.factories.domain import NOW
from tests.factories.yard import make_yard
from workers.contracts.prompts import SealedPrompt, seal_prompt

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

TEXT = '{"messages": [{"role": "user", "content": "Where is the Penguin?"}]}'


@pytest.fixture
def yard():
    return make_yard()


def browser_of(person):
    client = Client()
    client.force_login(person)
    return client


def rest_of(person):
    client = APIClient()
    client.force_login(person)
    return client


def sealed(yard, *, tenant=None, text=TEXT):
    ids = {"record_id": yard.record.record_id, "tenant_id": str((tenant or yard.people.tenant).pk)}
    key = base64.b64decode(prompt_key_text())
    return SealedPrompt(arrived_at=NOW.timestamp(), sealed=seal_prompt(text.encode(), public_key=key, **ids), **ids)


@pytest.fixture
def kept(yard):
    keep_prompts(actor=SYSTEM, tenant=yard.people.tenant, days=7, now=NOW)
    store_prompts(prompts=[sealed(yard)], now=NOW)
    return KeptPrompt.objects.get()


def test_nothing_is_kept_until_a_tenant_asks(yard):
    store_prompts(prompts=[sealed(yard)], now=NOW)
    assert KeptPrompt.objects.count() == 0
    snapshot = compile_snapshot(generation=1, pools=[], now=NOW)
    assert (snapshot.prompt_key, [each.name for each in snapshot.tenants if each.keeps_prompts]) == ("", [])


def test_gateways_are_told_of_the_tenant_that_asked_and_of_no_other(yard, kept):
    snapshot = compile_snapshot(generation=1, pools=[], now=NOW)
    assert snapshot.prompt_key == prompt_key_text()
    assert [each.tenant_id for each in snapshot.tenants if each.keeps_prompts] == [str(yard.people.tenant.pk)]


def test_what_was_stored_while_its_tenant_took_the_choice_back_goes(yard, kept):
    PromptChoice.objects.all().delete()  # committed after the other transaction had looked
    assert forget_old_prompts(now=NOW) == 1
    assert KeptPrompt.objects.count() == 0


def test_the_database_holds_no_readable_text(kept):
    assert "Penguin" not in kept.sealed


def test_a_batch_that_comes_twice_is_stored_once(yard, kept):
    store_prompts(prompts=[sealed(yard), sealed(yard)], now=NOW)
    assert KeptPrompt.objects.count() == 1


@pytest.mark.parametrize(
    ("person", "status"),
    [
        ("owner", 200), ("teammate", 200), ("viewer", 403), ("stranger", 404),
        ("operator", 403), ("platform_admin", 403), ("finance", 403),
    ],
)  # fmt: skip
def test_only_the_tenants_own_admins_and_developers_read_a_prompt(yard, kept, person, status):
    asked = rest_of(getattr(yard.people, person)).get(f"/api/v1/usage/records/{kept.record_id}/prompt/")
    assert asked.status_code == status
    assert ("Penguin" in asked.content.decode()) == (status == 200)
    shown = browser_of(getattr(yard.people, person)).post(f"/requests/{kept.record_id}/prompt/")
    assert (shown.status_code, "Penguin" in shown.content.decode()) == (status, status == 200)


@pytest.mark.parametrize(
    ("person", "status"), [("owner", 200), ("teammate", 403), ("operator", 403), ("stranger", 404)]
)
def test_only_the_tenants_own_admin_turns_it_on(yard, person, status):
    path = f"/api/v1/tenants/{yard.people.tenant.pk}/prompts/"
    assert rest_of(getattr(yard.people, person)).put(path, {"days": 3}, format="json").status_code == status
    answer = rest_of(yard.people.owner).get(path).json()
    assert (answer["is_kept"], answer["days"]) == ((True, 3) if status == 200 else (False, None))


@pytest.mark.parametrize("days", [0, 91, -1, "many", None])
def test_a_time_that_is_none_is_refused_with_its_reason(yard, days):
    answer = rest_of(yard.people.owner).put(
        f"/api/v1/tenants/{yard.people.tenant.pk}/prompts/", {"days": days}, format="json"
    )
    assert (answer.status_code, "days" in answer.content.decode()) == (400, True)


def test_who_reads_and_who_searches_is_in_the_audit_and_the_text_is_not(yard, kept):
    owner = browser_of(yard.people.owner)
    owner.post(f"/requests/{kept.record_id}/prompt/")
    owner.get("/requests/?range=90d&prompt=penguin")
    found = AuditEntry.objects.filter(actor_id=yard.people.owner.pk, action__startswith="prompt")
    assert sorted(found.values_list("action", flat=True)) == ["prompt.read", "prompts.searched"]
    assert not [entry for entry in AuditEntry.objects.all() if "enguin" in str(vars(entry))]


def test_a_search_finds_the_requests_with_the_words_and_no_others(yard, kept):
    def rows(person, words):
        first, last = (NOW - timedelta(days=1)).date(), (NOW + timedelta(days=1)).date()
        page = browser_of(person).get(f"/requests/?first={first}&last={last}&prompt={words}").content.decode()
        return page.count(f"/requests/{kept.record_id}/")

    assert (rows(yard.people.owner, "pEnGuIn"), rows(yard.people.owner, "walrus")) == (1, 0)
    assert (rows(yard.people.viewer, "penguin"), rows(yard.people.operator, "penguin")) == (0, 0)


def test_a_prompt_goes_when_its_days_are_over(kept):
    forget_old_prompts(now=NOW + timedelta(days=6))
    assert KeptPrompt.objects.count() == 1
    forget_old_prompts(now=NOW + timedelta(days=8))
    assert KeptPrompt.objects.count() == 0


def test_turned_off_what_was_kept_is_gone_at_once(yard, kept):
    answer = rest_of(yard.people.owner).delete(f"/api/v1/tenants/{yard.people.tenant.pk}/prompts/")
    assert (answer.status_code, KeptPrompt.objects.count()) == (204, 0)


def test_a_text_moved_to_another_tenants_request_does_not_open(yard, kept):
    other = yard.people.other
    keep_prompts(actor=SYSTEM, tenant=other, days=7, now=NOW)
    KeptPrompt.objects.update(tenant=other)
    answer = rest_of(yard.people.stranger).get(f"/api/v1/usage/records/{kept.record_id}/prompt/")
    assert (answer.status_code, "Penguin" in answer.content.decode()) == (404, False)


def test_a_removed_tenant_takes_its_prompts_along(yard, kept):
    revoke_key(actor=SYSTEM, key=yard.key, now=NOW)
    remove_tenant(actor=SYSTEM, tenant=yard.people.tenant, now=NOW)
    assert KeptPrompt.objects.count() == 0

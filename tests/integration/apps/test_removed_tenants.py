"""A removed tenant is gone for everybody but the books: what it used stays on the bill, by its name."""

from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import Client

from apps.common.actors import SYSTEM, Actor
from apps.common.errors import ConflictError, NotFoundError
from apps.quotas.models import TenantPolicy
from apps.tenants.models import APIKey, Invitation, Membership, Tenant
from apps.tenants.selectors import actor_of, get_tenant, list_tenants
from apps.tenants.services import create_key, create_service_account, create_tenant, remove_tenant, revoke_key
from apps.tenants.services.keys import mint_playground_key
from apps.usage.models import UsageRecord
from apps.usage.selectors.reports import report_usage, scope_for, sum_usage
from apps.usage.selectors.statements import get_statement
from tests.factories.domain import NOW
from tests.factories.usage import ingest_records, make_record
from tests.factories.yard import make_yard

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

UTC = ZoneInfo("UTC")
FINANCE = Actor(user_id=None, name="finance", is_finance=True)


@pytest.fixture
def yard():
    return make_yard()


@pytest.fixture
def removed(yard):
    revoke_key(actor=SYSTEM, key=yard.key, now=NOW)
    remove_tenant(actor=SYSTEM, tenant=yard.people.tenant, now=NOW)
    return yard.people.tenant


def day_of(actor, tenant):
    return scope_for(actor=actor, tenant_id=tenant.pk, start=NOW - timedelta(days=1), end=NOW + timedelta(days=1))


def test_it_is_gone_for_everybody_who_looks(yard, removed):
    for actor in (SYSTEM, FINANCE, actor_of(yard.people.owner)):
        with pytest.raises(NotFoundError):
            get_tenant(actor=actor, tenant_id=removed.pk)
        assert removed not in list_tenants(actor=actor)


def test_nothing_hangs_on_it_any_more_but_what_bills_need(yard, removed):
    gone = [Membership, Invitation, TenantPolicy]
    assert [model.objects.filter(tenant=removed).count() for model in gone] == [0, 0, 0]
    assert APIKey.objects.filter(tenant=removed).count() == 1


def test_its_people_have_no_role_left(yard, removed):
    assert actor_of(yard.people.owner).roles == {}


def test_what_it_used_is_still_stated_by_its_name(yard, removed):
    statement = get_statement(actor=FINANCE, tenant_id=removed.pk, first_day=NOW.date(), zone=UTC, now=NOW)
    assert (statement.tenant.full_name, statement.totals.request_count) == (removed.full_name, 1)
    [row] = report_usage(scope=day_of(FINANCE, removed), group_by=["tenant", "key"], zone=UTC)
    assert row.names["tenant"] == removed.name
    assert row.names["key"].startswith("notebook")


def test_a_team_that_was_removed_stays_on_the_bill_of_its_organisation(yard):
    organisation = yard.people.tenant
    revoke_key(actor=SYSTEM, key=yard.key, now=NOW)
    team = create_tenant(actor=SYSTEM, name="search", parent=organisation, now=NOW)
    ingest_records(records=[make_record(tenant_id=str(team.pk))], node_id=yard.node.pk, now=NOW)
    owner = actor_of(yard.people.owner)
    before = sum_usage(scope=day_of(owner, organisation)).request_count
    remove_tenant(actor=SYSTEM, tenant=team, now=NOW)
    assert before == 2
    assert sum_usage(scope=day_of(actor_of(yard.people.owner), organisation)).request_count == before


def test_a_record_that_comes_later_is_billed_too(yard, removed):
    ingest_records(records=[make_record(tenant_id=str(removed.pk))], node_id=yard.node.pk, now=NOW)
    assert UsageRecord.objects.filter(tenant_id=removed.pk).count() == 2
    assert sum_usage(scope=day_of(FINANCE, removed)).request_count == 2


def test_its_name_may_be_given_again_and_the_new_one_has_nothing_of_the_old(yard, removed):
    again = create_tenant(actor=SYSTEM, name=removed.name, now=NOW)
    assert sum_usage(scope=day_of(FINANCE, again)).request_count == 0
    with pytest.raises(ConflictError):
        create_tenant(actor=SYSTEM, name=removed.name, now=NOW)


def test_keys_that_work_keep_it_and_those_of_its_playground_do_not(yard):
    tenant = yard.people.tenant
    with pytest.raises(ConflictError, match="keys that work"):
        remove_tenant(actor=SYSTEM, tenant=tenant, now=NOW)
    revoke_key(actor=SYSTEM, key=yard.key, now=NOW)
    playground, _ = mint_playground_key(actor=actor_of(yard.people.owner), tenant=tenant, now=NOW)
    remove_tenant(actor=SYSTEM, tenant=tenant, now=NOW)
    playground.refresh_from_db()
    assert playground.revoked_at == NOW


def test_no_key_is_made_for_it_and_nothing_below_it(removed):
    for attempt in (create_key, create_tenant):
        named = {"tenant": removed} if attempt is create_key else {"parent": removed}
        with pytest.raises(NotFoundError):
            attempt(actor=SYSTEM, name="late", now=NOW, **named)


def test_its_service_accounts_go_with_it(yard):
    account = create_service_account(actor=SYSTEM, tenant=yard.people.tenant, name="bot", role="developer", now=NOW)
    revoke_key(actor=SYSTEM, key=yard.key, now=NOW)
    remove_tenant(actor=SYSTEM, tenant=yard.people.tenant, now=NOW)
    assert not type(account.user).objects.filter(pk=account.user_id).exists()


def test_the_page_says_what_goes_and_asks_for_the_name(yard):
    operator, tenant = Client(), yard.people.tenant
    operator.force_login(yard.people.operator)
    path = f"/tenants/{tenant.pk}/remove/"
    assert "keys that work" in operator.get(path).content.decode()
    revoke_key(actor=SYSTEM, key=yard.key, now=NOW)
    assert "invitations" in operator.get(path).content.decode()
    assert "That is not its name" in operator.post(path, {"name": "another"}).content.decode()
    assert Tenant.objects.get(pk=tenant.pk).removed_at is None
    assert operator.post(path, {"name": tenant.name}).status_code == 302
    assert Tenant.objects.get(pk=tenant.pk).removed_at is not None
    assert operator.get(f"/tenants/{tenant.pk}/").status_code == 404
    assert tenant.name in operator.get("/tenants/?removed=1").content.decode()


@pytest.mark.parametrize(("person", "status"), [("owner", 403), ("teammate", 403), ("viewer", 403), ("stranger", 404)])
def test_an_organisation_is_not_its_own_people_s_to_remove(yard, person, status):
    client = Client()
    client.force_login(getattr(yard.people, person))
    assert client.post(f"/tenants/{yard.people.tenant.pk}/remove/", {"name": "x"}).status_code == status

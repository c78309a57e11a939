"""The second wall: as the role that web has, Postgres itself shows a tenant only its own rows."""

import json

import pytest
from django.contrib.sessions.backends.db import SessionStore
from django.db import ProgrammingError, connection, transaction
from django.http import JsonResponse
from django.test import RequestFactory
from django.utils import timezone

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.common.middleware import begin_without_rows
from apps.common.row_security import APPEND_ONLY
from apps.common.rows import every_tenant, no_tenant, see_rows_of
from apps.common.sessions import CONFIRMED_AT
from apps.console.access import everybody, page
from apps.tenants.models import APIKey, Membership, Tenant
from apps.tenants.selectors import actor_of
from apps.tenants.services import create_key
from apps.usage.models import BudgetAlert, QuarantinedRecord, UsageRecord, UsageSlot, UsageWorkflowTotal
from tests.factories.yard import make_yard
from tests.support.web_role import web_role

pytestmark = [pytest.mark.integration, pytest.mark.django_db]

OF_TENANTS = (APIKey, Membership, Tenant, UsageRecord, UsageSlot, AuditEntry)


@pytest.fixture
def yard(valkey):
    made = make_yard()
    create_key(actor=SYSTEM, tenant=made.people.other, name="theirs", now=timezone.now())
    return made


def forgetful(model):
    """A view whose author forgot that there are tenants."""

    @page(everybody)
    def view(request):
        rows = model.objects.all()
        return JsonResponse({"tenants": sorted({str(getattr(row, "tenant_id", row.pk)) for row in rows})})

    return view


def asked(view, user):
    request = RequestFactory().get("/")
    request.user, request.session = user, SessionStore()
    request.session[CONFIRMED_AT] = timezone.now().timestamp()
    with web_role():
        return begin_without_rows(view)(request)


def test_sums_of_workflows_of_all_tenants_are_for_those_who_see_every_tenant(yard):
    def names(user):
        return json.loads(asked(forgetful(UsageWorkflowTotal), user).content)["tenants"]

    assert names(yard.people.owner) == names(yard.people.stranger) == []
    assert names(yard.people.operator) == ["None"]


@pytest.mark.parametrize("model", OF_TENANTS)
def test_a_forgotten_filter_shows_a_stranger_nothing_of_another_tenant(model, yard):
    people = yard.people
    shown = asked(forgetful(model), people.stranger).content.decode()
    assert str(people.tenant.pk) not in shown
    assert str(people.tenant.pk) in asked(forgetful(model), people.owner).content.decode()
    assert str(people.tenant.pk) in asked(forgetful(model), people.operator).content.decode()
    assert asked(forgetful(model), people.roleless).content == b'{"tenants": []}'


@pytest.mark.parametrize("model", OF_TENANTS)
def test_who_has_said_nothing_sees_nothing_in_a_transaction_and_out_of_one(model, yard):
    with no_tenant(), web_role():
        assert model.objects.count() == 0
        with transaction.atomic():
            assert model.objects.count() == 0
        with every_tenant():
            assert model.objects.count() > 0


def test_the_scope_is_told_again_after_a_savepoint_took_it_back(yard):
    with web_role(), every_tenant():
        with transaction.atomic():
            with no_tenant():
                assert Tenant.objects.count() == 0
            transaction.set_rollback(True)
        assert Tenant.objects.count() == 2
        with no_tenant():
            assert Tenant.objects.count() == 0


def test_a_row_cannot_be_written_for_another_tenant(yard):
    people = yard.people
    with no_tenant(), web_role():
        see_rows_of(actor_of(people.stranger))
        foreign = Membership(tenant=people.tenant, user=people.stranger, role="viewer", created_at=timezone.now())
        with pytest.raises(ProgrammingError, match="row-level security"), transaction.atomic():
            foreign.save()


def test_no_table_of_tenants_is_without_its_wall(db):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, c.relrowsecurity AND c.relforcerowsecurity FROM pg_class c JOIN pg_attribute a"
            " ON a.attrelid = c.oid AND a.attname = 'tenant_id' AND NOT a.attisdropped"
            " WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition"
        )
        walls = dict(cursor.fetchall())
    assert {"tenants_apikey", "usage_record", "usage_slot", "audit_auditentry"} <= set(walls)
    assert [table for table, has_wall in walls.items() if not has_wall] == []


def test_no_table_that_hangs_on_rows_with_a_wall_is_without_its_own(db):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT part.relname FROM pg_constraint f JOIN pg_class whole ON whole.oid = f.confrelid"
            " JOIN pg_class part ON part.oid = f.conrelid"
            " WHERE f.contype = 'f' AND whole.relrowsecurity AND NOT (part.relrowsecurity AND part.relforcerowsecurity)"
        )
        assert cursor.fetchall() == []


def test_alerts_are_seen_with_their_budget_and_quarantined_records_by_who_sees_every_tenant(yard):
    budget, fields = yard.budget, {"threshold_percent": 80, "is_forecast": False, "channel": "mail", "spent_usd": 1}
    BudgetAlert.objects.create(budget=budget, month=timezone.now().date(), raised_at=timezone.now(), **fields)
    people = yard.people
    for user, counts in ((people.owner, (1, 0)), (people.stranger, (0, 0)), (people.operator, (1, 1))):
        with no_tenant(), web_role():
            see_rows_of(actor_of(user))
            assert (BudgetAlert.objects.count(), QuarantinedRecord.objects.count()) == counts


def test_the_web_role_owns_nothing_and_reaches_no_partition_behind_the_wall(yard):
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname FROM pg_class c WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace"
            " AND (pg_get_userbyid(c.relowner) = 'tokenyard_web'"
            " OR (c.relispartition AND has_table_privilege('tokenyard_web', c.oid, 'SELECT')))"
        )
        assert cursor.fetchall() == []


@pytest.mark.parametrize("table", APPEND_ONLY)
@pytest.mark.parametrize("right", ["UPDATE", "DELETE", "TRUNCATE"])
def test_the_web_role_can_take_nothing_back_from_the_audit_trail(table, right, db):
    with connection.cursor() as cursor:
        cursor.execute("SELECT has_table_privilege('tokenyard_web', %s, %s)", [table, right])
        assert cursor.fetchone() == (False,)


def test_the_web_role_cannot_have_what_notes_changes_write_elsewhere_with_the_owners_rights(yard):
    """A table of the session's own would be found first, with a trigger on it that runs as the owner."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT proname, proconfig FROM pg_proc WHERE prosecdef")
        paths = dict(cursor.fetchall())
        assert paths
        assert all(path[0].endswith("pg_temp") for path in paths.values())
    with every_tenant(), web_role(), connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE rest_change (LIKE public.rest_change INCLUDING ALL)")
        Tenant.objects.filter(pk=yard.people.tenant.pk).update(name="renamed")
        cursor.execute("SELECT count(*) FROM pg_temp.rest_change")
        assert cursor.fetchone() == (0,)

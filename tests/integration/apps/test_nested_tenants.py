"""An organisation, two teams of it and a project of one: who sees what, where keys may be, what reports add up."""

import pytest

from apps.common.actors import SYSTEM
from apps.common.errors import ConflictError
from apps.quotas.services import open_tenant_below
from apps.tenants.models import Role
from apps.tenants.selectors import actor_of, list_tenants
from apps.tenants.services import add_member, create_key, create_tenant, remove_tenant
from apps.usage.services.partitions import make_partitions
from tests.factories.domain import NOW, make_member, make_node
from tests.factories.usage import ingest_records, make_record

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def team(people):
    return open_tenant_below(actor=SYSTEM, parent=people.tenant, name="search", now=NOW)


@pytest.fixture
def sister(people):
    return open_tenant_below(actor=SYSTEM, parent=people.tenant, name="ads", now=NOW)


@pytest.fixture
def project(team):
    return open_tenant_below(actor=SYSTEM, parent=team, name="prod", now=NOW)


def seen_by(user):
    return [tenant.full_name for tenant in list_tenants(actor=actor_of(user))]


def test_a_member_sees_what_is_below_and_never_beside_or_above(people, team, sister, project):
    member = make_member(team, "searcher", Role.DEVELOPER)
    assert sorted(tenant.name for tenant in list_tenants(actor=actor_of(people.owner))) == [
        "ads", "gold", "prod", "search",
    ]  # fmt: skip
    assert sorted(tenant.name for tenant in list_tenants(actor=actor_of(member))) == ["prod", "search"]
    assert seen_by(people.stranger) == ["batch"]


def test_the_role_from_above_counts_at_every_door_below(people, project, as_user):
    path = f"/api/v1/tenants/{project.pk}/members/"
    assert as_user(people.owner).get(path).status_code == 200
    assert as_user(people.viewer).get(path).status_code == 200
    assert as_user(people.stranger).get(path).status_code == 404
    new = {"tenant_id": str(project.pk), "name": "k"}
    assert as_user(people.teammate).post("/api/v1/api-keys/", new).status_code == 201
    assert as_user(people.viewer).post("/api/v1/api-keys/", new).status_code == 403


def test_keys_belong_to_a_leaf(people, team, project):
    for above in (people.tenant, team):
        with pytest.raises(ConflictError):
            create_key(actor=SYSTEM, tenant=above, name="k", now=NOW)
    create_key(actor=SYSTEM, tenant=project, name="k", now=NOW)


def test_nothing_goes_below_a_tenant_with_keys_nor_below_a_project(sister, project):
    create_key(actor=SYSTEM, tenant=sister, name="k", now=NOW)
    for full in (sister, project):
        with pytest.raises(ConflictError):
            create_tenant(actor=SYSTEM, name="deeper", parent=full, now=NOW)


def test_two_organisations_may_have_teams_of_the_same_name(people, team, as_user):
    path = f"/api/v1/tenants/{people.other.pk}/children/"
    made = as_user(people.stranger).post(path, {"name": "search"})
    assert (made.status_code, made.json()["full_name"]) == (201, "batch/search")
    assert as_user(people.stranger).post(path, {"name": "search"}).status_code == 409
    assert as_user(people.owner).post(path, {"name": "mine"}).status_code == 404


def test_reports_of_a_tenant_add_up_what_is_below(people, team, sister, project, as_user):
    make_partitions(now=NOW)
    records = [make_record(tenant_id=str(tenant.pk)) for tenant in (project, project, sister)]
    ingest_records(records=records, node_id=make_node().pk, now=NOW)

    def count(user, tenant):
        answer = as_user(user).get(
            "/api/v1/usage/report/",
            {"tenant": str(tenant.pk), "start": "2026-11-01T00:00:00Z", "end": "2026-12-31T00:00:00Z"},
        )
        return answer.json()["totals"]["request_count"]

    assert [count(people.owner, tenant) for tenant in (people.tenant, team, sister, project)] == [3, 2, 1, 2]


def test_an_admin_removes_what_is_below_and_not_the_top(people, team, as_user):
    client = as_user(people.owner)
    assert client.delete(f"/api/v1/tenants/{people.tenant.pk}/").status_code == 403
    assert as_user(people.stranger).delete(f"/api/v1/tenants/{team.pk}/").status_code == 404
    assert client.delete(f"/api/v1/tenants/{team.pk}/").status_code == 204


def test_a_tenant_with_something_below_or_keys_that_work_stays(team, project):
    create_key(actor=SYSTEM, tenant=project, name="k", now=NOW)
    for kept in (team, project):
        with pytest.raises(ConflictError):
            remove_tenant(actor=SYSTEM, tenant=kept, now=NOW)


def test_leaving_the_parent_ends_keys_below(people, project, as_user):
    member = add_member(actor=SYSTEM, tenant=people.tenant, user=people.roleless, role=Role.DEVELOPER, now=NOW)
    key, _ = create_key(actor=SYSTEM, tenant=project, name="k", owner_id=people.roleless.pk, now=NOW)
    as_user(people.owner).delete(f"/api/v1/tenants/{people.tenant.pk}/members/{member.pk}/")
    key.refresh_from_db()
    assert key.revoked_at is not None

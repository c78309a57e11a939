"""A list asks the database as often for many rows as for one."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.common.actors import SYSTEM
from apps.routing.services.routes import create_route
from apps.tenants.services import create_key
from tests.factories.domain import NOW, make_deployment, make_member, make_node, make_replica, make_tenant, make_version
from tests.factories.usage import ingest_records, make_record
from tests.integration.apps.console.test_who_may_open_what import address

pytestmark = pytest.mark.integration

LISTS = (
    "overview",
    "alerts",
    "rollouts",
    "replica",
    "accelerator",
    "tenant_models",
    "fleet",
    "node",
    "models",
    "deployments",
    "deployment",
    "routes",
    "route",
    "tenants",
    "tenant",
    "keys",
    "members",
    "version_new",
    "tenant_home",
    "usage",
    "requests",
    "audit",
    "limits",
    "tenant_limits",
    "cost",
    "outcomes",
    "statements",
    "exports",
    "record_health",
    "price_book",
    "reratings",
    "palette",
)


def add_one_of_everything(yard, number):
    version, tenant = make_version(f"more{number}"), make_tenant(f"tenant{number}")
    member = make_member(yard.people.tenant, f"member{number}")
    deployment, node = make_deployment(version), make_node(f"node{number}")
    make_replica(deployment, node=node, port=9000, state="ready")
    make_replica(deployment, node=yard.node, port=9100 + number, state="ready")
    create_route(actor=SYSTEM, public_name=f"model{number}", weights={version.pk: 1}, now=NOW)
    key, _ = create_key(actor=SYSTEM, tenant=yard.people.tenant, name="more", owner_id=member.pk, now=NOW)
    ids = {"tenant_id": str(tenant.pk), "key_id": str(key.pk), "user_id": str(member.pk), "version_id": str(version.pk)}
    ingest_records(records=[make_record(**ids)], node_id=node.pk, now=NOW)


def queries_of(client, path):
    client.get(path)
    with CaptureQueriesContext(
        connection,
    ) as captured:
        assert client.get(path).status_code == 200
    return [query["sql"].split("WHERE")[0] for query in captured.captured_queries]


@pytest.mark.parametrize("name", LISTS)
def test_more_rows_take_no_more_queries(name, yard, open_as):
    client, path = open_as("operator"), address(name, yard) + "?first=2026-11-29&last=2026-11-29"
    before = queries_of(client, path)
    for number in range(3):
        add_one_of_everything(yard, number)
    assert len(queries_of(client, path)) <= len(before)

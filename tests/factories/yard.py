"""One of everything the console shows, and people who may see some of it."""

from dataclasses import dataclass

from apps.common.actors import SYSTEM
from apps.deployments.models import Deployment, Replica
from apps.fleet.models import Node
from apps.routing.models import Route
from apps.routing.services.routes import create_route
from apps.tenants.models import APIKey, Invitation, Membership
from apps.tenants.services import create_key, invite
from apps.usage.services.ingest import ingest_records
from apps.usage.services.partitions import make_partitions
from tests.factories.domain import NOW, People, make_deployment, make_node, make_people, make_version
from tests.factories.usage import make_record
from workers.contracts.usage import UsageRecord


@dataclass(frozen=True)
class Yard:
    people: People
    node: Node
    deployment: Deployment
    route: Route
    key: APIKey
    record: UsageRecord

    @property
    def address_parts(self):
        """What an address of the console may name, by the name of its converter's argument."""
        viewer = Membership.objects.get(user=self.people.viewer)
        return {
            "node_id": self.node.pk,
            "deployment_id": self.deployment.pk,
            "route_id": self.route.pk,
            "tenant_id": self.people.tenant.pk,
            "membership_id": viewer.pk,
            "key_id": self.key.pk,
            "record_id": self.record.record_id,
            "invitation_id": Invitation.objects.get(tenant=self.people.tenant).pk,
            "user_id": self.people.viewer.pk,
        }


def make_yard():
    people = make_people()
    stable, canary = make_version("v1"), make_version("v2")
    invite(actor=SYSTEM, tenant=people.tenant, email="guest@example.org", role="viewer", now=NOW)
    key, _ = create_key(actor=SYSTEM, tenant=people.tenant, name="notebook", owner_id=people.owner.pk, now=NOW)
    node, deployment = make_node(), make_deployment(stable)
    Replica.objects.create(
        deployment=deployment, node=node, port=9000, state="ready", created_at=NOW, state_changed_at=NOW
    )
    route = create_route(actor=SYSTEM, public_name="demo-chat", weights={stable.pk: 90, canary.pk: 10}, now=NOW)
    record = make_record(
        tenant_id=str(people.tenant.pk), key_id=str(key.pk), user_id=str(people.owner.pk), version_id=str(stable.pk)
    )
    make_partitions(now=NOW)
    ingest_records(records=[record], node_id=node.pk, now=NOW)
    return Yard(people, node, deployment, route, key, record)

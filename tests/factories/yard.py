"""One of everything the console shows, and people who may see some of it."""

from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from apps.common.actors import SYSTEM
from apps.deployments.models import Deployment, Replica
from apps.fleet.models import Accelerator, Node
from apps.limits.models import Block, Limit, RaiseRequest
from apps.limits.services.limits import block, set_limit
from apps.limits.services.raises import ask_for_raise
from apps.routing.models import Route
from apps.routing.services.routes import create_route
from apps.telemetry.services.decisions import record_decisions
from apps.tenants.models import APIKey, Invitation, Membership
from apps.tenants.services import create_key, invite
from apps.usage.models import Budget, QuarantinedRecord, Rerating
from apps.usage.services.budgets import create_budget
from apps.usage.services.partitions import make_partitions
from apps.usage.services.rerating import run_reratings, start_rerating
from tests.factories.domain import NOW, People, make_deployment, make_node, make_people, make_replica, make_version
from tests.factories.usage import decision_on, ingest_records, make_record
from workers.contracts.usage import UsageRecord


@dataclass(frozen=True)
class Yard:
    people: People
    node: Node
    deployment: Deployment
    replica: Replica
    accelerator: Accelerator
    route: Route
    key: APIKey
    record: UsageRecord
    limit: Limit
    block: Block
    raise_request: RaiseRequest
    budget: Budget
    rerating: Rerating
    quarantined: QuarantinedRecord

    @property
    def address_parts(self):
        """What an address of the console may name, by the name of its converter's argument."""
        viewer = Membership.objects.get(user=self.people.viewer)
        return {
            "node_id": self.node.pk,
            "deployment_id": self.deployment.pk,
            "replica_id": self.replica.pk,
            "accelerator_id": self.accelerator.pk,
            "version_id": self.deployment.version_id,
            "model_id": self.deployment.version.model_id,
            "route_id": self.route.pk,
            "tenant_id": self.people.tenant.pk,
            "membership_id": viewer.pk,
            "key_id": self.key.pk,
            "record_id": self.record.record_id,
            "limit_id": self.limit.pk,
            "block_id": self.block.pk,
            "raise_id": self.raise_request.pk,
            "label": self.record.request_id,
            "budget_id": self.budget.pk,
            "rerating_id": self.rerating.pk,
            "quarantined_id": self.quarantined.pk,
            "invitation_id": Invitation.objects.filter(tenant=self.people.tenant).earliest("id").pk,
            "user_id": self.people.viewer.pk,
        }


def make_yard():
    people = make_people()
    stable, canary = make_version("v1"), make_version("v2")
    invite(actor=SYSTEM, tenant=people.tenant, email="guest@example.org", role="viewer", now=NOW)
    key, _ = create_key(actor=SYSTEM, tenant=people.tenant, name="notebook", owner_id=people.owner.pk, now=NOW)
    node, deployment = make_node(), make_deployment(stable)
    replica = make_replica(deployment, node=node, port=9000, state="ready")
    accelerator = Accelerator.objects.create(node=node, index=0, key="0", kind="gpu", name="H100", model="H100")
    route = create_route(actor=SYSTEM, public_name="demo-chat", weights={stable.pk: 90, canary.pk: 10}, now=NOW)
    record = make_record(
        tenant_id=str(people.tenant.pk), key_id=str(key.pk), user_id=str(people.owner.pk), version_id=str(stable.pk)
    )
    make_partitions(now=NOW)
    ingest_records(records=[record], node_id=node.pk, now=NOW, undecodable=[b"{"])
    record_decisions(node_id=node.pk, decisions=[decision_on(record)], now=NOW)
    parts = (people, node, deployment, replica, accelerator, route, key, record)
    return Yard(*parts, **_money(people), **_limits(people.tenant))


def _money(people):
    budget = create_budget(actor=SYSTEM, name="monthly", tenant=people.tenant, amount_usd=Decimal(100), now=NOW)
    rerating = start_rerating(actor=SYSTEM, start=NOW - timedelta(days=1), end=NOW, reason="a contract", now=NOW)
    run_reratings(now=NOW)
    return {"budget": budget, "rerating": rerating, "quarantined": QuarantinedRecord.objects.get()}


def _limits(tenant):
    """`limit` has nobody's raise request; another of the tenant's has one."""
    named = {"actor": SYSTEM, "tenant": tenant, "scope": "tenant", "now": NOW}
    limit = set_limit(kind="requests_per_minute", amount=Decimal(60), **named)
    other = set_limit(kind="cost_per_month", amount=Decimal(100), **named)
    stopped = block(actor=SYSTEM, tenant=tenant, scope="end_user", subject="eve", now=NOW)
    asked = ask_for_raise(actor=SYSTEM, tenant=tenant, limit=other, amount=Decimal(200), reason="the launch", now=NOW)
    return {"limit": limit, "block": stopped, "raise_request": asked}

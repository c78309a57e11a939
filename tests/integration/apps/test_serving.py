"""From deployments and routes to what nodes are told: placement, desired states, snapshots."""

import json
from datetime import timedelta

import msgspec
import pytest
from django.db import DatabaseError, connections, transaction

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.common.models import LeaderLease
from apps.common.services import lead
from apps.deployments.models import NodeDesired, Replica, ReplicaEvent, ReplicaState
from apps.deployments.services.deployments import scale_deployment
from apps.deployments.services.replicas import record_replica_reports
from apps.fleet.models import Node, NodeState
from apps.fleet.services.nodes import mark_silent_nodes, set_cordon
from apps.placement.services.loop import reconcile
from apps.routing.models import SnapshotGeneration
from apps.routing.selectors.routes import list_chat_models
from apps.routing.selectors.status import get_snapshot_status
from apps.routing.services.gateways import record_gateway
from apps.routing.services.routes import create_route, set_canary_weights
from apps.routing.services.snapshots import publish_snapshot, snapshot_key
from apps.tenants.services import create_key, revoke_key
from apps.usage.services.prices import set_price
from tests.factories.domain import NOW, make_deployment, make_node, make_replica, make_tenant, make_version
from workers.contracts.desired import DesiredState
from workers.contracts.signing import open_signed, public_key_text
from workers.contracts.snapshot import Price
from workers.contracts.telemetry import GatewayReport, ReplicaReport

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


def turn(now=NOW):
    assert reconcile(holder="controller-1", now=now)


def desired(node):
    return msgspec.json.decode(NodeDesired.objects.get(node=node).body, type=DesiredState)


def report(node, state, **facts):
    reports = [ReplicaReport(replica_id=str(r.pk), state=state, **facts) for r in Replica.objects.filter(node=node)]
    record_replica_reports(node_id=node.pk, reports=reports, now=NOW)


# --- placement --------------------------------------------------------------------------------------------------------


def test_replicas_are_spread_and_each_gets_a_port_of_its_own(settings):
    settings.ENGINE_PORT_BASE = 22800
    nodes = [make_node("n1"), make_node("n2")]
    make_deployment(make_version(), replica_count=3)
    turn()
    assert sorted(len(desired(node).replicas) for node in nodes) == [1, 2]
    assert sorted(Replica.objects.values_list("port", flat=True)) == [22800, 22801, 22802]


def test_a_turn_that_changes_nothing_writes_no_new_generation():
    node = make_node()
    make_deployment(make_version())
    turn()
    turn()
    assert desired(node).generation == 1


def test_a_replica_without_a_fit_node_says_why_and_is_placed_once_there_is_one():
    node = make_node(is_cordoned=True)
    make_deployment(make_version())
    turn()
    assert Replica.objects.get().detail == "n1: is cordoned"
    set_cordon(actor=SYSTEM, node=node, is_cordoned=False, now=NOW)
    turn()
    assert (Replica.objects.get().node, Replica.objects.get().detail) == (node, "")


def test_scaling_down_drains_first_and_removes_once_stopped():
    node = make_node()
    deployment = make_deployment(make_version(), replica_count=2)
    turn()
    report(node, "ready")
    scale_deployment(actor=SYSTEM, deployment=deployment, replica_count=1, now=NOW)
    turn()
    assert sorted(spec.is_draining for spec in desired(node).replicas) == [False, True]
    draining = Replica.objects.get(is_draining=True)
    stopped = ReplicaReport(replica_id=str(draining.pk), state="stopped")
    record_replica_reports(node_id=node.pk, reports=[stopped], now=NOW)
    turn()
    assert len(desired(node).replicas) == 1
    assert not Replica.objects.filter(pk=draining.pk).exists()


def test_the_spec_hash_stays_when_the_number_of_replicas_changes():
    node = make_node()
    deployment = make_deployment(make_version())
    turn()
    (before,) = desired(node).replicas
    scale_deployment(actor=SYSTEM, deployment=deployment, replica_count=2, now=NOW)
    turn()
    assert before in desired(node).replicas


def test_a_change_of_state_is_an_event_and_its_repetition_is_not():
    node = make_node()
    make_deployment(make_version())
    turn()
    report(node, "warming", detail="loading weights")
    report(node, "warming", detail="loading weights")
    report(node, "ready")
    assert list(ReplicaEvent.objects.values_list("state", flat=True)) == ["ready", "warming", "placed"]


def test_a_node_may_not_report_on_the_replicas_of_another():
    make_node("n1")
    other = make_node("n2", is_cordoned=True)
    make_deployment(make_version())
    turn()
    theirs = ReplicaReport(replica_id=str(Replica.objects.get().pk), state="failed")
    record_replica_reports(node_id=other.pk, reports=[theirs], now=NOW)
    assert Replica.objects.get().state == "placed"


def test_what_a_silent_node_runs_is_unknown_and_stays_where_it_is():
    node = make_node()
    make_deployment(make_version())
    turn()
    report(node, "ready")
    mark_silent_nodes(now=NOW + timedelta(seconds=16))
    assert Node.objects.get().state == NodeState.OFFLINE
    turn(NOW + timedelta(seconds=17))
    replica = Replica.objects.get()
    assert (replica.state, replica.node) == ("unknown", node)
    assert len(desired(node).replicas) == 1


# --- leadership -------------------------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_only_one_leads_at_a_time():
    with lead("x", holder="a") as fence:
        assert fence == 1
        with pytest.MonkeyPatch.context() as patch:
            other = connections.create_connection("default")
            patch.setattr("apps.common.services.connection", other)
            from apps.common.services import _try_lock  # noqa: PLC0415

            other.set_autocommit(False)
            assert not _try_lock("x")
            other.rollback()
            other.close()


def test_the_fence_grows_when_leadership_changes_hands_and_only_then():
    fences = []
    for holder in ("a", "a", "b", "b", "a"):
        with lead("x", holder=holder) as fence:
            fences.append(fence)
    assert fences == [1, 1, 2, 2, 3]
    assert LeaderLease.objects.get().holder == "a"


def test_the_fence_is_in_the_desired_state():
    node = make_node()
    reconcile(holder="a", now=NOW)
    make_deployment(make_version())
    reconcile(holder="b", now=NOW)
    assert (desired(node).generation, desired(node).fence) == (2, 2)


# --- snapshot ---------------------------------------------------------------------------------------------------------


def publish(now=NOW):
    return publish_snapshot(holder="controller-1", now=now)


def newest():
    envelope = SnapshotGeneration.objects.first().envelope.encode()
    return open_signed(envelope, public_key_text(snapshot_key()))


def test_a_snapshot_carries_what_a_gateway_needs():
    tenant = make_tenant()
    one, two = make_version("v1", max_context_tokens=2048), make_version("v2")
    deployment = make_deployment(one)
    create_route(actor=SYSTEM, public_name="demo-chat", weights={one.pk: 90, two.pk: 10}, now=NOW)
    key, text = create_key(actor=SYSTEM, tenant=tenant, name="k", allowed_models=["demo-chat"], now=NOW)
    price = Price(input_pico_usd=150_000, cached_input_pico_usd=75_000, output_pico_usd=600_000)
    set_price(actor=SYSTEM, version=one, price=price, effective_from=NOW, now=NOW)
    assert publish() == 1
    snapshot = newest()
    assert [(t.version_id, t.weight) for t in snapshot.routes[0].targets] == [(str(one.pk), 90), (str(two.pk), 10)]
    (grant,) = snapshot.keys
    assert (grant.key_id, grant.key_sha256, grant.models) == (str(key.pk), key.key_sha256, ["demo-chat"])
    assert (snapshot.versions[0].price, snapshot.versions[0].deployment_id) == (price, str(deployment.pk))
    assert (snapshot.tenants[0].name, snapshot.tenants[0].service_class) == ("gold", "first")
    assert text not in SnapshotGeneration.objects.first().envelope


def test_an_unchanged_world_gives_no_new_generation():
    make_tenant()
    assert publish() == 1
    assert publish(NOW + timedelta(hours=1)) is None
    assert SnapshotGeneration.objects.count() == 1


def test_each_change_gives_the_next_generation():
    one, two = make_version("v1"), make_version("v2")
    route = create_route(actor=SYSTEM, public_name="demo-chat", weights={one.pk: 90, two.pk: 10}, now=NOW)
    publish()
    set_canary_weights(actor=SYSTEM, route_id=route.pk, weights={one.pk: 50, two.pk: 50}, now=NOW)
    assert publish() == 2
    assert [target.weight for target in newest().routes[0].targets] == [50, 50]
    assert newest().routes[0].alternatives == []
    set_canary_weights(
        actor=SYSTEM, route_id=route.pk, weights={one.pk: 50, two.pk: 50}, alternatives=[two.pk], now=NOW
    )
    assert publish() == 3
    assert newest().routes[0].alternatives == [str(two.pk)]


def test_revoked_and_expired_keys_leave_the_snapshot():
    tenant = make_tenant()
    keys = [create_key(actor=SYSTEM, tenant=tenant, name=name, now=NOW)[0] for name in ("a", "b")]
    create_key(actor=SYSTEM, tenant=tenant, name="c", expires_at=NOW + timedelta(hours=1), now=NOW)
    revoke_key(actor=SYSTEM, key=keys[0], now=NOW)
    publish()
    assert len(newest().keys) == 2
    assert publish(NOW + timedelta(hours=1)) == 2
    assert [grant.key_id for grant in newest().keys] == [str(keys[1].pk)]


def test_a_price_comes_into_force_by_itself():
    version = make_version()
    create_route(actor=SYSTEM, public_name="demo-chat", weights={version.pk: 1}, now=NOW)
    later = NOW + timedelta(hours=1)
    set_price(actor=SYSTEM, version=version, price=Price(input_pico_usd=7), effective_from=later, now=NOW)
    publish()
    assert newest().versions[0].price.input_pico_usd == 0
    assert publish(later) == 2
    assert newest().versions[0].price.input_pico_usd == 7


def test_old_generations_are_forgotten():
    tenant = make_tenant()
    for number in range(53):
        create_key(actor=SYSTEM, tenant=tenant, name=f"k{number}", now=NOW)
        publish()
    generations = sorted(SnapshotGeneration.objects.values_list("generation", flat=True))
    assert (generations[0], generations[-1], len(generations)) == (4, 53, 50)


def test_the_status_counts_the_gateways_that_act_on_the_newest():
    nodes = [make_node("n1"), make_node("n2"), make_node("n3", state=NodeState.OFFLINE)]
    make_node("n4", state=NodeState.JOINING)
    publish()
    for node, generation in zip(nodes, (1, 0, 1), strict=True):
        reported = GatewayReport(gateway_id="g", boot_id="b", active_generation=generation, snapshot_error="torn")
        record_gateway(node_id=node.pk, report=reported, now=NOW)
    status = get_snapshot_status()
    assert str(status) == "generation 1 active on 1 of 3 gateways"
    assert [gateway.is_active for gateway in status.gateways] == [True, False, False]


# --- audit ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [lambda rows: rows.update(action="x"), lambda rows: rows.delete()])
def test_the_audit_is_append_only(change):
    make_tenant()
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        change(AuditEntry.objects.all())


def test_no_secret_reaches_the_audit():
    tenant = make_tenant()
    key, text = create_key(actor=SYSTEM, tenant=tenant, name="k", now=NOW)
    make_node()
    entries = json.dumps(list(AuditEntry.objects.values("before", "after", "subject_name")))
    secrets = [text, key.key_sha256, Node.objects.get().token_sha256]
    assert not [secret for secret in secrets if secret in entries]
    assert AuditEntry.objects.filter(action="key.created", tenant_id=tenant.pk).count() == 1


def test_who_begins_is_shown_a_model_that_an_engine_serves_before_one_that_none_does():
    for name in ("a-idle", "b-served", "c-idle"):
        version = make_version(model=name)
        create_route(actor=SYSTEM, public_name=name, weights={version.pk: 1}, now=NOW)
        state = ReplicaState.READY if name == "b-served" else ReplicaState.STARTING
        make_replica(make_deployment(version), state=state, node=make_node(name), port=9000)
    assert list_chat_models() == ["b-served", "a-idle", "c-idle"]

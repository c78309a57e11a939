"""A deployment goes to another version without a request that finds no engine: rows, routes, REST."""

from datetime import timedelta

import msgspec
import pytest

from apps.audit.models import AuditEntry
from apps.common.actors import SYSTEM
from apps.common.errors import NotFoundError
from apps.deployments.models import Deployment, NodeDesired, Replica, ReplicaEvent
from apps.deployments.selectors import list_pools
from apps.deployments.services.deployments import (
    Change,
    cancel_drain,
    change_deployment,
    drain_replica,
    restart_replica,
    set_autoscaled_count,
)
from apps.deployments.services.replicas import record_replica_reports
from apps.fleet.models import Node
from apps.placement.services.loop import reconcile
from apps.registry.services import change_engine
from apps.routing.models import Route, RouteTarget, SnapshotGeneration
from apps.routing.services.gateways import record_gateway
from apps.routing.services.routes import create_route
from apps.routing.services.snapshots import publish_snapshot, snapshot_key
from tests.factories.domain import NOW, make_deployment, make_node, make_replica, make_version
from workers.contracts.desired import DesiredState
from workers.contracts.signing import open_signed, public_key_text
from workers.contracts.telemetry import GatewayReport, ReplicaReport

pytestmark = [pytest.mark.integration, pytest.mark.django_db]


@pytest.fixture
def operator(as_user, people):
    return as_user(people.operator)


@pytest.fixture
def served():
    """One replica of v1, ready, with a route and a gateway that knows of it."""
    make_node()
    v1 = make_version("v1")
    deployment = make_deployment(v1)
    create_route(actor=SYSTEM, public_name="demo-chat", weights={v1.pk: 7}, now=NOW)
    turn()
    report_all("ready")
    return deployment


def test_pools_are_read_in_one_statement_as_replicas_may_appear_meanwhile(served, django_assert_num_queries):
    idle = make_deployment(make_version("v2"), replica_count=0)
    asleep = make_deployment(make_version("v3"))
    make_replica(asleep, is_asleep=True, state="sleeping")
    with django_assert_num_queries(1):
        pools = {pool.deployment_id: list(pool.ready.values()) for pool in list_pools()}
    assert pools == {served.pk: [1], idle.pk: [0], asleep.pk: [0]}


def turn(now=NOW):
    assert reconcile(holder="controller-1", now=now)
    publish_snapshot(holder="controller-1", now=now)


def report_all(state, **facts):
    for node in Node.objects.all():
        rows = Replica.objects.filter(node=node, is_draining=False)
        reports = [ReplicaReport(replica_id=str(row.pk), state=state, **facts) for row in rows]
        record_replica_reports(node_id=node.pk, reports=reports, now=NOW)


def stop_draining():
    for row in Replica.objects.filter(is_draining=True):
        stopped = ReplicaReport(replica_id=str(row.pk), state="stopped")
        record_replica_reports(node_id=row.node_id, reports=[stopped], now=NOW)


def gateway_knows(generation=None):
    newest = generation or SnapshotGeneration.objects.first().generation
    report = GatewayReport(gateway_id="g", boot_id="b", active_generation=newest)
    record_gateway(node_id=Node.objects.get().pk, report=report, now=NOW)


def snapshot():
    envelope = SnapshotGeneration.objects.first().envelope
    return open_signed(envelope.encode(), public_key_text(snapshot_key()))


def routed():
    """Weights by label."""
    found = snapshot()
    labels = {version.version_id: version.label for version in found.versions}
    return {labels[target.version_id]: target.weight for target in found.routes[0].targets}


def go_to(operator, deployment, version, **facts):
    body = {"version_id": str(version.pk), **facts}
    answer = operator.patch(f"/api/v1/deployments/{deployment.pk}/", body, format="json")
    assert answer.status_code == 200, answer.data
    return answer.data


def labels():
    rows = Replica.objects.filter(is_draining=False).select_related("revision__version").order_by("id")
    return [row.revision.version.label for row in rows]


def test_the_old_one_serves_until_the_new_one_is_proved_and_every_gateway_knows_it(operator, served):
    gateway_knows()
    assert go_to(operator, served, make_version("v2"))["rollout"]["state"] == "progressing"
    turn()
    assert labels() == ["v1", "v2"]
    assert routed()["v1"] > routed()["v2"] > 0
    report_all("ready")
    turn()
    assert labels() == ["v1", "v2"]
    gateway_knows()
    turn()
    turn()
    assert labels() == ["v2"]
    shown = operator.get(f"/api/v1/deployments/{served.pk}/").data["rollout"]
    assert (shown["state"], shown["newer_ready_count"], shown["older_count"]) == ("progressing", 1, 1)
    stop_draining()
    turn()
    assert operator.get(f"/api/v1/deployments/{served.pk}/").data["rollout"]["state"] == "done"


def test_the_route_follows_and_the_audit_says_so(operator, served):
    v2 = make_version("v2")
    go_to(operator, served, v2)
    for _ in range(4):
        turn()
        report_all("ready")
        stop_draining()
    assert [(target.version, target.weight) for target in RouteTarget.objects.all()] == [(v2, 7)]
    assert routed() == {"v2": 7}
    assert AuditEntry.objects.filter(action="route.weights_changed").exists()


def test_a_gateway_that_does_not_take_snapshots_holds_a_rollout_up_for_a_minute_only(operator, served):
    gateway_knows(1)
    go_to(operator, served, make_version("v2"))
    for _ in range(3):
        turn()
        report_all("ready")
    assert labels() == ["v1", "v2"]
    turn(NOW + timedelta(seconds=61))
    turn(NOW + timedelta(seconds=61))
    assert labels() == ["v2"]


def test_other_arguments_of_the_same_version_are_rolled_out_too_and_what_runs_is_not_replaced_in_place(
    operator, served
):
    before = Replica.objects.get()
    operator.patch(f"/api/v1/deployments/{served.pk}/", {"max_running_requests": 9}, format="json")
    turn()
    body = msgspec.json.decode(NodeDesired.objects.get().body, type=DesiredState)
    assert [spec.max_running_requests for spec in body.replicas] == [64, 9]
    assert body.replicas[0].replica_id == str(before.pk)
    assert len({spec.port for spec in body.replicas}) == 2


def test_an_engine_changed_in_its_version_is_rolled_out(served):
    version = served.version
    change_engine(
        actor=SYSTEM, version=version, engine="fake", source="other", engine_args={}, max_context_tokens=None, now=NOW
    )
    turn()
    sources = [row.revision.process["source"] for row in Replica.objects.order_by("id")]
    assert sources == ["fake", "other"]


def test_a_rollout_is_paused_resumed_and_undone_by_rest(operator, served):
    path = f"/api/v1/deployments/{served.pk}/rollout"
    go_to(operator, served, make_version("v2"))
    assert operator.post(f"{path}/pause/").data["rollout"]["state"] == "paused"
    turn()
    assert labels() == ["v1"]
    assert operator.delete(f"{path}/pause/").data["rollout"]["state"] == "progressing"
    turn()
    assert labels() == ["v1", "v2"]
    undone = operator.post(f"{path}/undo/", {}, format="json")
    assert (undone.status_code, undone.data["version"]) == (202, "demo-chat:v1")
    kept = Replica.objects.earliest("id").pk
    turn()
    assert [row.pk for row in Replica.objects.filter(is_draining=False)] == [kept]
    numbers = operator.get(f"/api/v1/deployments/{served.pk}/revisions/").data["results"]
    assert [(each["number"], each["version"]) for each in numbers] == [(3, "demo-chat:v1"), (2, "demo-chat:v2")]


def test_an_undo_to_nothing_or_to_what_has_changed_is_refused(operator, served):
    path = f"/api/v1/deployments/{served.pk}/rollout/undo/"
    assert operator.post(path, {}, format="json").status_code == 404
    assert operator.post(path, {"number": 5}, format="json").status_code == 404
    assert operator.post(path, {"number": "x"}, format="json").status_code == 400
    change_engine(
        actor=SYSTEM,
        version=served.version,
        engine="fake",
        source="other",
        engine_args={},
        max_context_tokens=None,
        now=NOW,
    )
    turn()
    assert operator.post(path, {}, format="json").status_code == 409


def test_a_deployment_stays_with_its_model_and_has_room_to_move(operator, served):
    path = f"/api/v1/deployments/{served.pk}/"
    other = make_version("v1", model="other")
    refused = operator.patch(path, {"version_id": str(other.pk)}, format="json")
    assert (refused.status_code, "demo-chat" in refused.data["detail"]) == (400, True)
    stuck = operator.patch(path, {"max_surge": 0}, format="json")
    assert stuck.status_code == 400
    assert operator.patch(path, {"max_surge": 0, "max_unavailable": 1}, format="json").status_code == 200


def test_a_controller_that_comes_new_goes_on_where_the_other_was(operator, served):
    go_to(operator, served, make_version("v2"))
    turn()
    report_all("ready")
    publish_snapshot(holder="controller-2", now=NOW)
    reconcile(holder="controller-2", now=NOW)
    assert labels() == ["v2"]
    fences = {
        msgspec.json.decode(body, type=DesiredState).fence
        for body in NodeDesired.objects.values_list("body", flat=True)
    }
    assert fences == {2}


def test_strangers_may_not_touch_a_rollout(as_user, people, served):
    for user in (people.owner, people.teammate, people.stranger):
        client = as_user(user)
        for path in ("rollout/pause/", "rollout/undo/"):
            assert client.post(f"/api/v1/deployments/{served.pk}/{path}").status_code in (403, 404)


def test_a_drain_is_cancelled_and_what_was_to_take_its_place_goes(operator, served):
    replica = Replica.objects.get()
    path = f"/api/v1/replicas/{replica.pk}/drain/"
    operator.post(path)
    turn()
    assert Replica.objects.count() == 2
    assert operator.delete(path).data["is_draining"] is False
    turn()
    assert [row.pk for row in Replica.objects.filter(is_draining=False)] == [replica.pk]
    assert operator.delete(path).status_code == 409


def test_a_restart_is_part_of_what_is_wanted_so_it_reaches_a_node_that_was_away_and_only_once(operator, served):
    before = msgspec.json.decode(NodeDesired.objects.get().body, type=DesiredState).replicas[0]
    operator.post(f"/api/v1/replicas/{Replica.objects.get().pk}/restart/")
    turn()
    turn()
    after = msgspec.json.decode(NodeDesired.objects.get().body, type=DesiredState)
    assert (after.generation, after.replicas[0].incarnation) == (2, 1)
    assert after.replicas[0].spec_hash != before.spec_hash


def test_an_autoscalers_target_goes_before_peoples_until_somebody_scales_by_hand(operator, served):
    set_autoscaled_count(deployment_id=served.pk, replica_count=3, reason="queue", now=NOW)
    turn()
    shown = operator.get(f"/api/v1/deployments/{served.pk}/").data
    assert (shown["replica_count"], shown["autoscaled_count"], shown["wanted_count"]) == (1, 3, 3)
    assert Replica.objects.count() == 3
    operator.patch(f"/api/v1/deployments/{served.pk}/", {"replica_count": 1}, format="json")
    turn()
    assert Deployment.objects.get().wanted_count == 1
    assert Replica.objects.filter(is_draining=False).count() == 1


def test_who_read_a_deployment_before_somebody_changed_it_undoes_nothing_of_that(served):
    stale = Deployment.objects.get()
    set_autoscaled_count(deployment_id=stale.pk, replica_count=3, reason="load", now=NOW)
    change_deployment(actor=SYSTEM, deployment=stale, change=Change(max_surge=2), now=NOW)
    found = Deployment.objects.get()
    assert (found.autoscaled_count, found.max_surge) == (3, 2)


@pytest.mark.parametrize("change", [restart_replica, drain_replica, cancel_drain])
def test_a_replica_that_is_gone_by_now_is_not_changed(served, change):
    stale = Replica.objects.first()
    Replica.objects.all().delete()
    with pytest.raises(NotFoundError, match="gone by now"):
        change(actor=SYSTEM, replica=stale, now=NOW)


def test_what_a_failed_engine_said_last_is_kept_with_the_event(operator, served):
    report_all("failed", detail="ended with status 1", log_tail=["CUDA out of memory\x00"])
    assert ReplicaEvent.objects.filter(state="failed").get().log_tail == ["CUDA out of memory"]
    events = operator.get(f"/api/v1/replicas/{Replica.objects.get().pk}/events/").data["results"]
    assert events[0]["log_tail"] == ["CUDA out of memory"]


def test_scaled_to_nothing_it_sleeps_where_asked_and_wakes_when_wanted(operator, served):
    path = f"/api/v1/deployments/{served.pk}/"
    operator.patch(path, {"keeps_asleep": True, "replica_count": 0}, format="json")
    turn()
    replica = Replica.objects.get()
    assert (replica.is_asleep, replica.is_draining) == (True, False)
    assert msgspec.json.decode(NodeDesired.objects.get().body, type=DesiredState).replicas[0].is_asleep
    report_all("sleeping")
    operator.patch(path, {"replica_count": 1}, format="json")
    turn()
    assert [row.is_asleep for row in Replica.objects.all()] == [False]
    assert Route.objects.count() == 1


def test_the_deployments_page_shows_the_rollout_and_has_its_buttons(client, people, operator, served):
    go_to(operator, served, make_version("v2"))
    client.force_login(people.operator)
    page = f"/deployments/{served.pk}/"
    assert "Back to revision 1" in client.get(page).content.decode()
    client.post(f"{page}rollout/", {"act": "pause"})
    assert "Resume" in client.get(page).content.decode()
    client.post(f"{page}rollout/", {"act": "undo"})
    assert Deployment.objects.get().version.label == "v1"

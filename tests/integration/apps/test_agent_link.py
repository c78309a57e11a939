"""The agent's websocket: a real uvicorn, a real client, real Postgres; with Valkey and without."""

import time
from itertools import count
from uuid import UUID

import msgspec
import pytest
from django.db import connection
from websockets.exceptions import ConnectionClosed

from apps.common.actors import SYSTEM
from apps.deployments.models import Replica
from apps.deployments.services.replicas import mark_unreachable_replicas
from apps.fleet.models import Accelerator, Node
from apps.fleet.services.nodes import join_node, remove_node
from apps.placement.services.loop import reconcile
from apps.routing.models import GatewayState
from apps.routing.selectors.status import get_snapshot_status
from apps.routing.services.routes import create_route, set_canary_weights
from apps.routing.services.snapshots import publish_snapshot
from apps.telemetry.models import KeptPrompt
from apps.telemetry.selectors.frames import get_frame, list_series
from apps.usage.models import QuarantinedRecord, UsageRecord
from tests.factories.domain import NOW, make_deployment, make_version
from tests.factories.usage import make_record
from tests.support.controlplane import connected_agent, running_web, running_worker
from workers.contracts import link
from workers.contracts.prompts import SealedPrompt
from workers.contracts.signing import open_signed
from workers.contracts.telemetry import AcceleratorReport, GatewayReport, NodeTelemetry, ReplicaReport

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True)]

SEQUENCES = count(1)
NO_VALKEY = "redis://127.0.0.1:1/0"


def environment(postgres, **changes):
    url = postgres.url(connection.settings_dict["NAME"])
    return {"DJANGO_SETTINGS_MODULE": "controlplane.settings.test", "TOKENYARD_DATABASE_URL": url} | changes


@pytest.fixture
def web(postgres, transactional_db):
    with running_web(environment(postgres)) as address:
        yield address


@pytest.fixture
def joined(transactional_db):
    return join_node(actor=SYSTEM, name="n1", now=NOW)


@pytest.fixture
def agent(web, joined):
    node, token = joined
    with connected_agent(web, token) as agent:
        agent.send(hello(node))
        yield agent


def hello(node):
    inventory = {"engines": ["fake"], "cpu_count": 2}
    return link.Hello(node_id=str(node.pk), boot_id="boot", agent_version="1", inventory=inventory)


def telemetry(node, *, snapshot=0, desired=0, sequence=None, **facts):
    body = NodeTelemetry(
        node_id=str(node.pk),
        boot_id="boot",
        sequence=sequence or next(SEQUENCES),
        sampled_at=0.0,
        snapshot_generation=snapshot,
        desired_generation=desired,
        **facts,
    )
    return link.Telemetry(body=body)


def eventually(probe):
    """What another process is about to do; the limit is for one that never does it."""
    deadline = time.monotonic() + 15
    while not (found := probe()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def closing_code(agent):
    with pytest.raises(ConnectionClosed) as closed:
        agent.receive(link.UsageAck)
    return closed.value.rcvd.code


def publish():
    return publish_snapshot(holder="test", now=NOW)


# --- connecting -------------------------------------------------------------------------------------------------------


def test_an_agent_is_welcomed_with_the_key_that_opens_the_snapshot(agent, joined):
    publish()
    welcome = agent.receive(link.Welcome)
    push = agent.receive(link.SnapshotPush)
    assert (welcome.node_id, welcome.node_name) == (str(joined[0].pk), "n1")
    assert open_signed(bytes(push.envelope), welcome.snapshot_public_key).generation == push.generation == 1


@pytest.mark.usefixtures("joined")
def test_an_agent_is_told_where_gateways_share_their_limits(agent, settings):
    assert agent.receive(link.Welcome).limits_url == settings.NODE_VALKEY_URL != ""


def test_a_hello_puts_the_node_online_with_its_inventory(agent, joined):
    agent.receive(link.Welcome)
    node = Node.objects.get(pk=joined[0].pk)
    assert (node.state, node.boot_id, node.inventory["cpu_count"]) == ("online", "boot", 2)


@pytest.mark.parametrize("token", ["tya-aaaaaaaa-wrong", "", "\xff"])
def test_a_wrong_token_is_told_so(web, token):
    with connected_agent(web, token) as agent:
        assert closing_code(agent) == link.CLOSE_UNAUTHORISED


def test_a_second_connection_replaces_the_first(agent, web, joined):
    agent.receive(link.Welcome)
    with connected_agent(web, joined[1]) as second:
        second.send(hello(joined[0]))
        second.receive(link.Welcome)
        assert closing_code(agent) == link.CLOSE_REPLACED
        second.send(link.UsageBatch(batch_id="b", records=[]))
        assert second.receive(link.UsageAck).batch_id == "b"


def test_a_removed_nodes_link_ends_with_its_token(agent, joined):
    agent.receive(link.Welcome)
    remove_node(actor=SYSTEM, node=joined[0], now=NOW)
    assert closing_code(agent) == link.CLOSE_REMOVED


def test_one_that_was_away_when_its_node_was_removed_is_told_when_it_comes_back(web, joined):
    remove_node(actor=SYSTEM, node=joined[0], now=NOW)
    with connected_agent(web, joined[1]) as agent:
        assert closing_code(agent) == link.CLOSE_REMOVED


@pytest.mark.parametrize("text", ["", "{", '{"type": 1}', '{"type": "telemetry", "body": 1}', "[" * 100_000])
def test_a_bad_frame_ends_the_link(agent, text):
    agent.receive(link.Welcome)
    agent.socket.send(text)
    assert closing_code(agent) == link.CLOSE_BAD_FRAME


def test_a_newer_agent_may_say_what_this_control_plane_does_not_know(agent, joined):
    agent.receive(link.Welcome)
    agent.socket.send('{"type": "weather", "body": {"sky": "blue"}}')
    frame = msgspec.to_builtins(telemetry(joined[0]))
    agent.socket.send(msgspec.json.encode(frame | {"mood": "good", "body": frame["body"] | {"mood": "good"}}).decode())
    agent.send(link.UsageBatch(batch_id="b", records=[]))
    assert agent.receive(link.UsageAck).batch_id == "b"


def test_telemetry_that_comes_twice_or_late_says_nothing_about_now(agent, joined):
    agent.receive(link.Welcome)
    make_deployment(make_version())
    reconcile(holder="test", now=NOW)
    reports = [ReplicaReport(replica_id=str(Replica.objects.get().pk), state=each) for each in ("ready", "degraded")]
    one, two = (telemetry(joined[0], replicas=[each]) for each in reports)
    for frame in (one, two, one, two, one):
        agent.send(frame)
    assert eventually(lambda: Replica.objects.get().state == "degraded")
    agent.send(link.UsageBatch(batch_id="b", records=[]))
    agent.receive(link.UsageAck)
    states = [event.state for event in Replica.objects.get().events.order_by("id")]
    assert (states[-1], states.count("degraded"), states.count("ready") <= 1) == ("degraded", 1, True)


def test_a_frame_that_is_too_big_ends_the_link(agent):
    agent.receive(link.Welcome)
    agent.socket.send('"' + "x" * (5 * 1024 * 1024) + '"')
    assert closing_code(agent) == 1009


def test_what_comes_before_hello_ends_the_link(web, joined):
    with connected_agent(web, joined[1]) as early:
        early.send(telemetry(joined[0]))
        assert closing_code(early) == link.CLOSE_BAD_FRAME


# --- down: snapshot and desired state ---------------------------------------------------------------------------------


def test_a_change_reaches_the_agent(agent):
    one, two = make_version("v1"), make_version("v2")
    route = create_route(actor=SYSTEM, public_name="demo-chat", weights={one.pk: 90, two.pk: 10}, now=NOW)
    publish()
    assert agent.receive(link.SnapshotPush).generation == 1
    set_canary_weights(actor=SYSTEM, route_id=route.pk, weights={one.pk: 50, two.pk: 50}, now=NOW)
    publish()
    assert agent.receive(link.SnapshotPush).generation == 2


def test_a_push_is_repeated_until_telemetry_shows_that_it_arrived(agent, joined):
    publish()
    agent.receive(link.SnapshotPush)
    agent.send(telemetry(joined[0], snapshot=0))
    assert agent.receive(link.SnapshotPush).generation == 1


def test_the_desired_state_follows_a_deployment(agent, joined):
    agent.receive(link.Welcome)
    make_deployment(make_version())
    reconcile(holder="test", now=NOW)
    (spec,) = agent.receive(link.DesiredPush).body.replicas
    assert (spec.replica_id, spec.engine) == (str(Replica.objects.get().pk), "fake")


def test_without_valkey_a_change_still_reaches_the_agent(postgres, joined):
    bare = environment(postgres, TOKENYARD_VALKEY_URL=NO_VALKEY)
    with running_web(bare) as address, connected_agent(address, joined[1]) as agent:
        agent.send(hello(joined[0]))
        agent.receive(link.Welcome)
        publish()
        assert agent.receive(link.SnapshotPush).generation == 1
        agent.send(link.UsageBatch(batch_id="b", records=[make_record()]))
        assert agent.receive(link.UsageAck).stored == 1


# --- up: usage and telemetry ------------------------------------------------------------------------------------------


def test_a_usage_batch_is_acknowledged_once_it_is_stored_and_again_as_duplicates(agent):
    records = [make_record(), make_record()]
    agent.send(link.UsageBatch(batch_id="b1", records=records))
    first = agent.receive(link.UsageAck)
    assert UsageRecord.objects.count() == 2
    agent.send(link.UsageBatch(batch_id="b2", records=records))
    second = agent.receive(link.UsageAck)
    assert [(ack.batch_id, ack.stored, ack.duplicate) for ack in (first, second)] == [("b1", 2, 0), ("b2", 0, 2)]
    assert UsageRecord.objects.count() == 2


def test_kept_prompts_are_acknowledged_whether_their_tenant_still_keeps_them_or_not(agent):
    prompt = SealedPrompt(record_id=str(UUID(int=1)), tenant_id=str(UUID(int=2)), arrived_at=1.0, sealed="AAAA")
    agent.send(link.PromptBatch(batch_id="p1", prompts=[prompt]))
    assert agent.receive(link.PromptAck).batch_id == "p1"
    assert KeptPrompt.objects.count() == 0


def test_damage_in_a_batch_stops_neither_the_link_nor_the_records_beside_it(agent):
    sound = msgspec.json.encode(make_record()).decode()
    agent.receive(link.Welcome)
    agent.socket.send(
        f'{{"type": "usage", "batch_id": "b", "records": [{sound}, {{"record_id": 5}}], "damaged": ["x"]}}'
    )
    ack = agent.receive(link.UsageAck)
    assert (ack.stored, ack.duplicate) == (3, 0)
    assert UsageRecord.objects.count() == 1
    assert {bytes(row.content) for row in QuarantinedRecord.objects.all()} == {b'{"record_id": 5}', b"x"}


def test_telemetry_becomes_live_values_and_states(agent, joined, valkey):
    node = joined[0]
    agent.receive(link.Welcome)
    make_deployment(make_version())
    reconcile(holder="test", now=NOW)
    publish()
    replica = Replica.objects.get()
    facts = {
        "replicas": [ReplicaReport(replica_id=str(replica.pk), state="ready", kv_used_ratio=0.5)],
        "gateway": GatewayReport(gateway_id="g", boot_id="b", active_generation=1, running_requests=3),
        "accelerators": [AcceleratorReport(index=0, kind="cpu", name="a CPU")],
    }
    agent.send(telemetry(node, snapshot=1, desired=1, **facts))
    frame = eventually(lambda: get_frame(node.pk))
    assert frame.telemetry.gateway.running_requests == 3
    assert eventually(lambda: 3 in [point.running_requests for point in list_series(since_s=0)])
    assert eventually(lambda: Replica.objects.filter(pk=replica.pk, state="ready").exists())
    assert eventually(lambda: GatewayState.objects.filter(active_generation=1).exists())
    assert str(get_snapshot_status()) == "generation 1 active on 1 of 1 gateways"
    assert Accelerator.objects.get().name == "a CPU"


def test_a_node_that_was_taken_for_silent_while_its_link_held_is_known_again(agent, joined):
    """Nothing of what it says has changed meanwhile."""
    node = joined[0]
    agent.receive(link.Welcome)
    make_deployment(make_version())
    reconcile(holder="test", now=NOW)
    replica = Replica.objects.get()
    reports = [ReplicaReport(replica_id=str(replica.pk), state="ready")]
    agent.send(telemetry(node, replicas=reports))
    assert eventually(lambda: Replica.objects.filter(state="ready").exists())
    Node.objects.update(state="offline")
    mark_unreachable_replicas(now=NOW)
    assert Replica.objects.get().state == "unknown"

    def is_known():
        agent.send(telemetry(node, replicas=reports))
        time.sleep(0.5)
        return Replica.objects.filter(state="ready", node__state="online").exists()

    assert eventually(is_known)


# --- the loops --------------------------------------------------------------------------------------------------------


def test_a_change_wakes_the_loops_of_a_real_worker(postgres, valkey, agent):
    agent.receive(link.Welcome)
    with running_worker(environment(postgres)):
        version = make_version()
        create_route(actor=SYSTEM, public_name="demo-chat", weights={version.pk: 1}, now=NOW)
        make_deployment(version)
        (spec,) = agent.receive(link.DesiredPush).body.replicas
        assert UUID(spec.version_id) == version.pk
        assert eventually(lambda: get_snapshot_status().generation)

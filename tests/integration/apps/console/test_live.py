"""The live link: history once, then frames; operators only; and what a frame says is what the page said first."""

import time

import pytest
from channels.db import database_sync_to_async
from channels.testing import WebsocketCommunicator
from django.contrib.auth.models import AnonymousUser

from apps.common.valkey import new_async_client
from apps.console.consumers import CLOSE_FORBIDDEN, CLOSE_UNAUTHORISED, LiveConsumer
from apps.console.selectors.live import read_frame
from apps.telemetry.policies import NodeFrame
from apps.telemetry.services import store_frames
from tests.factories.domain import make_people
from tests.factories.yard import make_yard
from workers.contracts.telemetry import GatewayReport, NodeTelemetry, ReplicaReport

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]


def link_of(user):
    link = WebsocketCommunicator(LiveConsumer.as_asgi(), "/ws/console/")
    link.scope["user"] = user
    return link


def telemetry_of(yard):
    replica = yard.deployment.replicas.get()
    report = ReplicaReport(replica_id=str(replica.pk), state="ready", running_requests=3, log_tail=["model loaded"])
    return NodeTelemetry(
        node_id=str(yard.node.pk),
        boot_id="b",
        sequence=1,
        sampled_at=time.time(),
        desired_generation=1,
        snapshot_generation=1,
        replicas=[report],
        gateway=GatewayReport(gateway_id="g", boot_id="b", active_generation=1, running_requests=3, ttft_ms_p95=812.0),
    )


async def tell(yard):
    client = new_async_client()
    try:
        frame = NodeFrame(received_at=time.time(), telemetry=telemetry_of(yard))
        await store_frames(client, {str(yard.node.pk): frame})
    finally:
        await client.aclose()


async def test_an_operator_gets_the_history_and_then_frames():
    people = await database_sync_to_async(make_people)()
    link = link_of(people.operator)
    assert (await link.connect())[0]
    assert (await link.receive_json_from(timeout=5))["type"] == "history"
    frame = await link.receive_json_from(timeout=5)
    assert frame["type"] == "frame"
    assert {"verdict", "values", "samples"} <= set(frame)
    await link.disconnect()


@pytest.mark.parametrize(("who", "code"), [("nobody", CLOSE_UNAUTHORISED), ("owner", CLOSE_FORBIDDEN)])
async def test_others_are_told_why_they_get_nothing(who, code):
    people = await database_sync_to_async(make_people)()
    link = link_of(AnonymousUser() if who == "nobody" else people.owner)
    await link.connect()
    assert await link.receive_output(timeout=5) == {"type": "websocket.close", "code": code, "reason": None}


async def test_what_a_client_sends_is_ignored():
    people = await database_sync_to_async(make_people)()
    link = link_of(people.operator)
    await link.connect()
    await link.send_to(text_data="{not json")
    assert (await link.receive_json_from(timeout=5))["type"] == "history"
    await link.disconnect()


async def test_a_frame_shows_what_the_node_has_just_told():
    yard = await database_sync_to_async(make_yard)()
    await tell(yard)
    frame = await database_sync_to_async(read_frame)(now_s=time.time())
    replica = await yard.deployment.replicas.aget()
    assert frame["values"][f"replica.{replica.pk}.running"]["text"] == "3"
    assert frame["values"][f"deployment.{yard.deployment.pk}.ready"]["text"] == "1 of 1"
    assert frame["samples"]["ttft_ms_p95"] == 812.0


async def test_a_frame_after_silence_shows_nothing_as_zero():
    yard = await database_sync_to_async(make_yard)()
    await tell(yard)
    frame = await database_sync_to_async(read_frame)(now_s=time.time() + 30)
    replica = await yard.deployment.replicas.aget()
    assert frame["values"][f"replica.{replica.pk}.running"]["text"] == "–"
    assert frame["values"][f"node.{yard.node.pk}.running"]["is_stale"]
    assert frame["samples"]["running_requests"] is None

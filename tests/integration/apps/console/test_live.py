"""The live link: history once, then frames; operators only; and what a frame says is what the page said first."""

import json
import time

import pytest
from asgiref.testing import ApplicationCommunicator
from channels.db import database_sync_to_async
from django.conf import settings
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from apps.common.valkey import new_async_client
from apps.console import consumers
from apps.console.consumers import CLOSE_FORBIDDEN, CLOSE_TRY_LATER, CLOSE_UNAUTHORISED
from apps.console.selectors.live import read_frame
from apps.identity.services.sessions import end_sessions_of
from apps.telemetry.policies import NodeFrame
from apps.telemetry.services.frames import store_frames
from apps.tenants.selectors import actor_of
from apps.tenants.services import change_access, set_platform_roles
from controlplane.sockets import application_of
from tests.factories.domain import make_people
from tests.factories.yard import make_yard
from workers.contracts.telemetry import GatewayReport, NodeTelemetry, ReplicaReport

pytestmark = [pytest.mark.integration, pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("valkey")]


def link_of(user=None, *, origin=settings.WEB_URL):
    """Through the application that the server runs, with the cookie of a signed-in browser."""
    headers = [(b"host", b"127.0.0.1"), (b"origin", origin.encode())]
    if user is not None:
        browser = Client()
        browser.force_login(user)
        cookie = f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"
        headers.append((b"cookie", cookie.encode()))
    scope = {"type": "websocket", "path": "/ws/console/", "query_string": b"", "subprotocols": [], "headers": headers}
    return ApplicationCommunicator(application_of(http=None, watch=None), scope)


async def opened(link):
    await link.send_input({"type": "websocket.connect"})
    return await link.receive_output(timeout=5)


async def received(link):
    return json.loads((await link.receive_output(timeout=5))["text"])


def telemetry_of(yard, replica):
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


async def tell(yard, replica):
    client = new_async_client()
    try:
        frame = NodeFrame(received_at=time.time(), telemetry=telemetry_of(yard, replica))
        await store_frames(client, {str(yard.node.pk): frame})
    finally:
        await client.aclose()


async def test_an_operator_gets_the_history_and_then_frames():
    people = await database_sync_to_async(make_people)()
    link = await database_sync_to_async(link_of)(people.operator)
    assert (await opened(link))["type"] == "websocket.accept"
    assert (await received(link))["type"] == "history"
    frame = await received(link)
    assert frame["type"] == "frame"
    assert {"verdict", "values", "samples"} <= set(frame)
    await link.send_input({"type": "websocket.disconnect", "code": 1000})
    await link.wait(timeout=5)


@pytest.mark.parametrize(("who", "code"), [(None, CLOSE_UNAUTHORISED), ("owner", CLOSE_FORBIDDEN)])
async def test_others_are_told_why_they_get_nothing(who, code):
    people = await database_sync_to_async(make_people)()
    link = await database_sync_to_async(link_of)(getattr(people, who) if who else None)
    assert (await opened(link))["type"] == "websocket.accept"
    closed = await link.receive_output(timeout=5)
    assert (closed["type"], closed["code"]) == ("websocket.close", code)


async def test_a_page_of_another_site_gets_no_link_even_with_the_cookie():
    people = await database_sync_to_async(make_people)()
    link = await database_sync_to_async(link_of)(people.operator, origin="https://elsewhere.example")
    assert (await opened(link))["type"] == "websocket.close"


@pytest.mark.parametrize("sent", ["{not json", "[" * 100_000, '{"show": "nodes"}', '{"show": [1]}', "7"])
async def test_what_names_no_keys_is_ignored(sent):
    people = await database_sync_to_async(make_people)()
    link = await database_sync_to_async(link_of)(people.operator)
    await opened(link)
    await link.send_input({"type": "websocket.receive", "text": sent})
    assert (await received(link))["type"] == "history"
    await link.send_input({"type": "websocket.disconnect", "code": 1000})
    await link.wait(timeout=5)


async def test_a_page_gets_the_values_it_names_and_no_others():
    yard = await database_sync_to_async(make_yard)()
    link = await database_sync_to_async(link_of)(yard.people.operator)
    await opened(link)
    assert (await received(link))["type"] == "history"
    key = f"deployment.{yard.deployment.pk}.ready"
    await link.send_input({"type": "websocket.receive", "text": json.dumps({"show": [key, "node.gone.state", "x.y"]})})
    while not (values := (await received(link))["values"]):
        pass
    assert set(values) == {key}
    await link.send_input({"type": "websocket.disconnect", "code": 1000})
    await link.wait(timeout=5)


async def test_a_frame_shows_what_the_node_has_just_told():
    yard = await database_sync_to_async(make_yard)()
    replica = await database_sync_to_async(yard.deployment.replicas.get)()
    await tell(yard, replica)
    frame = await database_sync_to_async(read_frame)(now_s=time.time())
    assert frame.values.get(f"replica.{replica.pk}.running")["text"] == "3"
    assert frame.values.get(f"deployment.{yard.deployment.pk}.ready")["text"] == "1 of 1"
    assert frame.samples["ttft_ms_p95"] == 812.0


async def test_a_frame_after_silence_shows_nothing_as_zero():
    yard = await database_sync_to_async(make_yard)()
    replica = await database_sync_to_async(yard.deployment.replicas.get)()
    await tell(yard, replica)
    frame = await database_sync_to_async(read_frame)(now_s=time.time() + 30)
    assert frame.values.get(f"replica.{replica.pk}.running")["text"] == "–"
    assert frame.values.get(f"node.{yard.node.pk}.running")["is_stale"]
    assert frame.samples["running_requests"] is None


def take_away(people, what):
    actor = actor_of(people.platform_admin)
    if what == "role":
        set_platform_roles(actor=actor, user=people.operator, is_operator=False, now=timezone.now())
    elif what == "session":
        end_sessions_of(actor=actor, user=people.operator, now=timezone.now())
    else:
        change_access(actor=actor, user=people.operator, is_active=False, now=timezone.now())


@pytest.mark.parametrize(
    ("what", "code"), [("role", CLOSE_FORBIDDEN), ("session", CLOSE_UNAUTHORISED), ("account", CLOSE_UNAUTHORISED)]
)
async def test_an_open_link_ends_with_the_role_the_session_or_the_account(what, code):
    people = await database_sync_to_async(make_people)()
    link = await database_sync_to_async(link_of)(people.operator)
    await opened(link)
    assert (await received(link))["type"] == "history"
    await database_sync_to_async(take_away)(people, what)
    while (message := await link.receive_output(timeout=5))["type"] != "websocket.close":
        assert json.loads(message["text"])["type"] == "frame"
    assert message["code"] == code


async def test_a_page_whose_figures_cannot_be_read_is_told_to_come_again(monkeypatch):
    def no_database(*, now_s):
        raise OperationalError("the server has gone away")

    monkeypatch.setattr(consumers, "read_history", no_database)
    people = await database_sync_to_async(make_people)()
    link = await database_sync_to_async(link_of)(people.operator)
    await opened(link)
    assert await link.receive_output(timeout=5) == {"type": "websocket.close", "code": CLOSE_TRY_LATER}

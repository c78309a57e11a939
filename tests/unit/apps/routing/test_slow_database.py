"""A link whose database is slow."""

import asyncio
from types import SimpleNamespace
from uuid import UUID

import msgspec
import pytest

from apps.routing.consumers import agent_link
from apps.routing.consumers.agent_link import AgentLink
from apps.routing.consumers.session import Newest
from workers.contracts.decisions import RequestDecision
from workers.contracts.link import Hello, Telemetry
from workers.contracts.telemetry import NodeTelemetry, ReplicaReport

pytestmark = pytest.mark.unit

FRAMES = 50
DECISION = {"tenant_id": "t", "service_class": "gold", "version_id": "v", "arrived_at": 0.0, "is_over": True}


class Hub:
    def __init__(self):
        self.heard = []

    async def opened(self, link):
        pass

    def closed(self, link):
        pass

    def seen(self, node_id):
        pass

    def telemetry_came(self, node_id, telemetry, received_at):
        self.heard.append(telemetry.sequence)

    def newest_for(self, node_id):
        return Newest()


def frame(sequence, decisions=()):
    report = ReplicaReport(replica_id="r", state="ready", detail=str(sequence))
    body = NodeTelemetry(
        node_id="n", boot_id="b", sequence=sequence, sampled_at=0.0, snapshot_generation=0, desired_generation=0,
        replicas=[report], decisions=[decision(each) for each in decisions],
    )  # fmt: skip
    return Telemetry(body=body)


def decision(request_id):
    return RequestDecision(request_id=request_id, **DECISION)


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - a turn of the loop is all it takes
            await asyncio.sleep(0)


def received(content):
    return {"type": "websocket.receive", "text": msgspec.json.encode(content).decode()}


class Database:
    """Takes the first write, and no other before it `answers`."""

    def __init__(self):
        self.answers = asyncio.Event()
        self.news, self.decisions = [], []

    async def write_news(self, node_id, news, now):
        self.news.append(news.replicas[0].detail)
        await self.answers.wait()
        return True

    async def write_decisions(self, node_id, decisions, now):
        self.decisions += [each.request_id for each in decisions]


async def nothing(*_):
    pass


@pytest.fixture
def database(monkeypatch):
    database = Database()
    monkeypatch.setattr(agent_link, "write_news", database.write_news)
    monkeypatch.setattr(agent_link, "write_decisions", database.write_decisions)
    monkeypatch.setattr(agent_link, "write_hello", nothing)
    monkeypatch.setattr(agent_link, "snapshot_key", lambda: None)
    monkeypatch.setattr(agent_link, "public_key_text", lambda key: "key")
    return database


@pytest.fixture
async def linked():
    """The messages of a link that runs, and its hub."""
    messages, hub = asyncio.Queue(), Hub()
    link = AgentLink(SimpleNamespace(pk=UUID(int=1), name="n"), hub, messages.get, nothing)
    running = asyncio.create_task(link.run())
    messages.put_nowait(received(Hello(node_id="n", boot_id="b", agent_version="1")))
    yield messages, hub
    messages.put_nowait({"type": "websocket.disconnect"})
    await running


async def test_it_hears_on_and_the_database_gets_the_first_and_the_newest(database, linked):
    messages, hub = linked
    messages.put_nowait(received(frame(1)))
    await until(lambda: database.news)
    for sequence in range(2, FRAMES + 1):
        messages.put_nowait(received(frame(sequence)))
    await until(lambda: len(hub.heard) == FRAMES)
    database.answers.set()
    await until(lambda: len(database.news) > 1)
    assert hub.heard == list(range(1, FRAMES + 1))
    assert database.news == ["1", str(FRAMES)]


async def test_decisions_are_told_once_and_so_none_is_left_out(database, linked):
    messages, hub = linked
    messages.put_nowait(received(frame(1, ["first"])))
    await until(lambda: database.news)
    for sequence, decisions in ((2, ["second", "third"]), (3, []), (4, ["fourth"])):
        messages.put_nowait(received(frame(sequence, decisions)))
    await until(lambda: len(hub.heard) == 4)
    database.answers.set()
    await until(lambda: len(database.decisions) > 3)
    assert database.decisions == ["first", "second", "third", "fourth"]


async def test_an_agent_that_has_gone_before_it_is_greeted_ends_its_link_and_nothing_else(database):
    async def closed(message):
        raise RuntimeError(f"Unexpected ASGI message '{message['type']}', after sending 'websocket.close'.")

    messages, hub = asyncio.Queue(), Hub()
    messages.put_nowait(received(Hello(node_id="n", boot_id="b", agent_version="1")))
    messages.put_nowait(received(frame(1)))
    await AgentLink(SimpleNamespace(pk=UUID(int=1), name="n"), hub, messages.get, closed).run()
    assert hub.heard == []

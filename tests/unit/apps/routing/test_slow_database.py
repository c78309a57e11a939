"""A link whose database is slow."""

import asyncio
from types import SimpleNamespace
from uuid import UUID

import msgspec
import pytest

from apps.routing.consumers import agent_link
from apps.routing.consumers.agent_link import AgentLink
from apps.routing.consumers.session import Newest
from workers.contracts.link import Hello, Telemetry
from workers.contracts.telemetry import NodeTelemetry, ReplicaReport

pytestmark = pytest.mark.unit

FRAMES = 50


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


def frame(sequence):
    report = ReplicaReport(replica_id="r", state="ready", detail=str(sequence))
    body = NodeTelemetry(
        node_id="n", boot_id="b", sequence=sequence, sampled_at=0.0, snapshot_generation=0, desired_generation=0,
        replicas=[report],
    )  # fmt: skip
    return Telemetry(body=body)


async def until(holds):
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - a turn of the loop is all it takes
            await asyncio.sleep(0)


def received(content):
    return {"type": "websocket.receive", "text": msgspec.json.encode(content).decode()}


async def test_it_hears_on_and_the_database_gets_the_first_and_the_newest(monkeypatch):
    slow, written = asyncio.Event(), []

    async def write_news(node_id, news, now):
        written.append(news.replicas[0].detail)
        await slow.wait()
        return True

    async def nothing(*_):
        pass

    monkeypatch.setattr(agent_link, "write_news", write_news)
    monkeypatch.setattr(agent_link, "write_hello", nothing)
    monkeypatch.setattr(agent_link, "snapshot_key", lambda: None)
    monkeypatch.setattr(agent_link, "public_key_text", lambda key: "key")
    messages, hub = asyncio.Queue(), Hub()
    link = AgentLink(SimpleNamespace(pk=UUID(int=1), name="n"), hub, messages.get, nothing)
    running = asyncio.create_task(link.run())
    for each in (Hello(node_id="n", boot_id="b", agent_version="1"), frame(1)):
        messages.put_nowait(received(each))
    await until(lambda: written)
    for sequence in range(2, FRAMES + 1):
        messages.put_nowait(received(frame(sequence)))
    await until(lambda: len(hub.heard) == FRAMES)
    slow.set()
    await until(lambda: len(written) > 1)
    assert hub.heard == list(range(1, FRAMES + 1))
    assert written == ["1", str(FRAMES)]
    messages.put_nowait({"type": "websocket.disconnect"})
    await running

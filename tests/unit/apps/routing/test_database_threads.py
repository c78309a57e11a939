"""What goes down to the nodes, that they were heard, and what comes up from them, in threads of their own."""

import asyncio
import threading
from contextlib import asynccontextmanager
from uuid import UUID

import pytest

from apps.routing.consumers import hub as hubs
from apps.routing.consumers.database import in_database_thread, in_looking_thread
from apps.routing.consumers.hub import LinkHub

pytestmark = pytest.mark.unit


@asynccontextmanager
async def a_thousand_nodes_that_have_much_to_say():
    told = threading.Event()
    writes = [asyncio.create_task(in_database_thread(told.wait, 20)) for _ in range(50)]
    try:
        yield
        assert not any(write.done() for write in writes)
    finally:
        told.set()
        await asyncio.gather(*writes)


async def test_a_look_for_news_waits_behind_nothing_that_a_thousand_nodes_have_to_say():
    async with a_thousand_nodes_that_have_much_to_say():
        assert await asyncio.wait_for(in_looking_thread(str.upper, "news"), 10) == "NEWS"


async def test_nor_does_that_they_were_heard_or_they_would_be_taken_for_silent_and_say_it_all_again(monkeypatch):
    heard = []
    monkeypatch.setattr(hubs, "record_seen", lambda *, node_ids, now: heard.extend(node_ids) or [])
    hub = LinkHub()
    hub.seen(UUID(int=1))
    async with a_thousand_nodes_that_have_much_to_say():
        await asyncio.wait_for(hub._note_seen(), 10)
    assert heard == [UUID(int=1)]

"""What goes down to the nodes, and what comes up from them, in threads of their own."""

import asyncio
import threading

import pytest

from apps.routing.consumers.database import in_database_thread, in_looking_thread

pytestmark = pytest.mark.unit


async def test_a_look_for_news_waits_behind_nothing_that_a_thousand_nodes_have_to_say():
    told = threading.Event()
    writes = [asyncio.create_task(in_database_thread(told.wait, 20)) for _ in range(50)]
    try:
        assert await asyncio.wait_for(in_looking_thread(str.upper, "news"), 10) == "NEWS"
        assert not any(write.done() for write in writes)
    finally:
        told.set()
        await asyncio.gather(*writes)

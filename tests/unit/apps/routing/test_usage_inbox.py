import asyncio
from uuid import uuid4

import pytest

from apps.routing.consumers.usage_inbox import AT_WORK, MOST_TOGETHER, UsageInbox
from apps.usage.services.ingest import Incoming, IngestCounts

pytestmark = pytest.mark.unit


class Store:
    """Remembers what was stored together, and answers when it is let go."""

    def __init__(self):
        self.together = []
        self.may_answer = asyncio.Event()
        self.fails = False

    async def __call__(self, incoming):
        self.together.append(len(incoming))
        await self.may_answer.wait()
        if self.fails:
            raise ValueError("a bug")
        return [IngestCounts(stored=len(each.records), duplicate=0) for each in incoming]


def batch(size):
    return Incoming(node_id=uuid4(), records=[None] * size)


async def test_what_comes_while_others_are_stored_is_stored_together():
    store = Store()
    inbox = UsageInbox(store)
    answers = [asyncio.create_task(inbox.take(batch(size))) for size in range(MOST_TOGETHER * 2 + AT_WORK + 1)]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    store.may_answer.set()
    assert [(await answer).stored for answer in answers] == list(range(len(answers)))
    assert max(store.together) == MOST_TOGETHER
    assert sum(store.together) == len(answers)
    assert len(store.together) < len(answers) / 4


async def test_a_store_that_breaks_answers_nobody_and_takes_the_next():
    store = Store()
    store.may_answer.set()
    store.fails = True
    inbox = UsageInbox(store)
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda *_: None)
    assert await inbox.take(batch(1)) is None
    store.fails = False
    assert (await inbox.take(batch(2))).stored == 2


async def test_a_link_that_ends_while_it_waits_stops_nobody():
    store = Store()
    inbox = UsageInbox(store)
    leaving, staying = (asyncio.create_task(inbox.take(batch(1))) for _ in range(2))
    await asyncio.sleep(0)
    leaving.cancel()
    store.may_answer.set()
    assert (await staying).stored == 1

import asyncio

import pytest

from apps.rest.consumers.feed import ChangeFeed
from apps.rest.policies.positions import Position

pytestmark = pytest.mark.unit


async def test_what_came_before_the_first_look_is_news_to_whoever_watches():
    """A watcher looks for itself as it begins; the first look of the feed may be later than that, and says no kinds."""

    async def look(seen):
        assert seen is None, "the second look comes half a second later"
        return set(), Position(7, 0)

    feed = ChangeFeed(look)
    async with feed.watching("node") as nodes, feed.watching("model") as models:
        await asyncio.wait_for(asyncio.gather(nodes.wait(), models.wait()), 5)


async def test_after_that_only_who_watches_what_has_changed_is_woken(monkeypatch):
    monkeypatch.setattr("apps.rest.consumers.feed.LOOK_EACH_S", 0.0)
    woken = asyncio.Event()

    async def look(seen):
        if seen is None:
            return set(), Position(7, 0)
        await woken.wait()
        return {"model"}, Position(8, 0)

    feed = ChangeFeed(look)
    async with feed.watching("node") as nodes, feed.watching("model") as models:
        await asyncio.wait_for(asyncio.gather(nodes.wait(), models.wait()), 5)
        nodes.clear()
        models.clear()
        woken.set()
        await asyncio.wait_for(models.wait(), 5)
        assert not nodes.is_set()

"""How a stream ends when its list can be asked for no more."""

import asyncio

import pytest

from apps.rest.consumers.lists import Listed, Page, Refusal
from apps.rest.consumers.watch import Watch

pytestmark = pytest.mark.unit

SCOPE = {"headers": [], "query_string": b"watch=1", "path": "/api/v1/nodes/"}
FIRST = Listed(page=Page(results=[{"id": "a"}]), kind="node", visible="", resource_version="5-1", cursor="more")


def streamed(answer):
    """What a watcher of a list of two pages is told when the second is answered so."""
    told = []

    async def send(message):
        told.append(message.get("body", b"").decode())

    async def asked(_):
        return answer

    watch = Watch(lambda _: None, SCOPE, FIRST, lambda: True)
    watch._ask = asked
    asyncio.run(watch.run(send, asyncio.Event(), 500))
    return "".join(told)


def test_a_list_that_was_told_whole_ends_with_where_to_go_on():
    whole = streamed(Listed(page=Page(results=[{"id": "b"}]), kind="node", visible="", resource_version="5-1"))
    assert whole.count("event: ADDED") == 2
    assert "BOOKMARK" in whole


@pytest.mark.parametrize("status", [429, 500, 503])
def test_of_a_list_that_broke_off_nobody_is_told_that_it_was_all(status):
    broken = streamed(Refusal(status, [], b'{"status": 503}'))
    assert "ADDED" in broken
    assert "BOOKMARK" not in broken
    assert "ERROR" not in broken


def test_who_may_not_look_any_more_is_told_so():
    assert "ERROR" in streamed(Refusal(403, [], b'{"status": 403}'))

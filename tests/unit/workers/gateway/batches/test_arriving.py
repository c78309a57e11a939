import asyncio

import pytest

from workers.gateway.batches.arriving import Room
from workers.gateway.errors import GatewayError

pytestmark = pytest.mark.unit


async def kept_nothing(tenant_id):
    del tenant_id
    return 0, 0


def may_take(room, size_bytes):
    try:
        asyncio.run(room.take("t", size_bytes))
    except GatewayError:
        return False
    return True


def test_what_arrives_at_other_processes_takes_room():
    room = Room(kept_nothing, max_files=3, max_bytes=100)
    room.open("t")
    assert may_take(room, 40)
    assert room.arriving() == {"t": (1, 40)}
    room.note_elsewhere({"t": (1, 50), "u": (9, 999)})
    assert may_take(room, 10)
    assert not may_take(room, 1)
    room.close("t", 51)
    room.open("t")
    room.note_elsewhere({"t": (3, 0)})
    assert not may_take(room, 1)
    room.close("t", 1)
    assert room.arriving() == {}

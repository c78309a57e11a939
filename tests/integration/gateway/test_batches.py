"""Files and batches by the openai SDK: what comes back, what is recorded, what is refused."""

import asyncio
from contextlib import asynccontextmanager

import msgspec
import openai
import pytest

from tests.support.batches import (
    CHAT,
    chats,
    create,
    ended,
    item_records,
    jsonl,
    line,
    lines_of,
    reached,
    sdk,
    upload,
)
from tests.support.fake_engines import fake_engine
from tests.support.gateways import chat_body, running_gateway, snapshot_for

pytestmark = pytest.mark.integration


@asynccontextmanager
async def served(tmp_path, *options, **config):
    async with fake_engine("--served-model-name", "demo-chat", *options) as engine:
        snapshot = snapshot_for(("demo-chat", 100, [engine.port]))
        async with running_gateway(tmp_path, snapshot, batches=tmp_path / "batches", **config) as gateway:
            async with sdk(gateway.port) as client:
                yield engine, gateway, client


async def test_each_item_is_answered_once_and_recorded_once(tmp_path):
    async with served(tmp_path) as (_, gateway, client):
        batch_id = await create(client, chats(40), metadata={"job": "nightly"})
        batch = await ended(client, batch_id)
        assert (batch.status, batch.metadata) == ("completed", {"job": "nightly"})
        assert (batch.request_counts.total, batch.request_counts.completed, batch.request_counts.failed) == (40, 40, 0)
        output = await lines_of(client, batch.output_file_id)
        records = item_records(gateway)
    assert [one["custom_id"] for one in output] == [f"item-{number}" for number in range(40)]
    assert batch.error_file_id is None
    for one in output:
        record = records[one["custom_id"]]
        assert one["response"]["status_code"] == 200
        assert one["error"] is None
        assert one["response"]["request_id"] == record.request_id
        assert one["response"]["body"]["usage"]["completion_tokens"] == record.output_tokens > 0
        assert (record.tags["batch_id"], record.service_class, record.outcome) == (batch_id, "batch", "completed")

"""Batches as clients make them, by the openai SDK or by hand."""

import asyncio
import json
import time
from typing import Any

import openai

from tests.support.gateways import KEYS, RunningGateway, chat_body

CHAT = "/v1/chat/completions"


def sdk(port: int, tenant: str = "gold") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key=KEYS[tenant], max_retries=0)


def line(custom_id: str, body: Any = None, *, url: str = CHAT, method: str = "POST") -> dict[str, Any]:
    return {"custom_id": custom_id, "method": method, "url": url, "body": body or chat_body(f"this is {custom_id}")}


def jsonl(lines: list[Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in lines)


def chats(count: int, **fields: Any) -> bytes:
    return jsonl([line(f"item-{number}", chat_body(f"this is {number}", **fields)) for number in range(count)])


async def upload(client: openai.AsyncOpenAI, content: bytes, filename: str = "in.jsonl") -> str:
    file = await client.files.create(file=(filename, content), purpose="batch")
    return file.id


async def create(client: openai.AsyncOpenAI, content: bytes, *, endpoint: Any = CHAT, **options: Any) -> str:
    file_id = await upload(client, content)
    batch = await client.batches.create(input_file_id=file_id, endpoint=endpoint, completion_window="24h", **options)
    return batch.id


async def ended(client: openai.AsyncOpenAI, batch_id: str, timeout_s: float = 30) -> openai.types.Batch:
    return await reached(client, batch_id, {"completed", "failed", "expired", "cancelled"}, timeout_s)


async def reached(
    client: openai.AsyncOpenAI, batch_id: str, statuses: set[str], timeout_s: float = 30
) -> openai.types.Batch:
    deadline = time.monotonic() + timeout_s
    while True:
        batch = await client.batches.retrieve(batch_id)
        if batch.status in statuses:
            return batch
        assert time.monotonic() < deadline, f"the batch is still {batch.status}: {batch.request_counts}"
        await asyncio.sleep(0.02)


async def lines_of(client: openai.AsyncOpenAI, file_id: str | None) -> list[dict[str, Any]]:
    if file_id is None:
        return []
    content = await client.files.content(file_id)
    return [json.loads(one) for one in content.text.splitlines()]


def item_records(gateway: RunningGateway) -> dict[str, Any]:
    """By custom_id; fails when an item has two."""
    records = [record for record in gateway.records() if "batch_id" in record.tags]
    by_item = {record.tags["batch_custom_id"]: record for record in records}
    assert len(by_item) == len(records), "an item was recorded twice"
    return by_item
